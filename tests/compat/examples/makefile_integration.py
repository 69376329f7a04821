"""As examples/makefile_integration: a random search in a build, between linking bitcode and making an executable."""

import subprocess
import sys
from pathlib import Path

from compiler_gym.third_party import llvm

Path("main.c").write_text("int twice(int);\nint main(int argc, char **argv) { return twice(argc) - 2; }\n")
Path("twice.c").write_text("int twice(int n) { int all = 0; for (int i = 0; i < n; i++) all += 2; return all; }\n")
clang = str(llvm.clang_path())
for name in ("main", "twice"):
    unoptimised = ["-O0", "-Xclang", "-disable-O0-optnone", "-Xclang", "-disable-llvm-passes"]
    subprocess.check_call([clang, "-emit-llvm", "-c", *unoptimised, f"{name}.c", "-o", f"{name}.bc"])
subprocess.check_call([str(llvm.llvm_link_path()), "main.bc", "twice.bc", "-o", "unoptimized.bc"])
search = [sys.executable, "-m", "compiler_gym.bin.random_search", "--env=llvm-ic-v0", "--runtime=2", "--patience=10"]
where = [f"--benchmark=file:///{Path('unoptimized.bc').resolve()}", "--output_dir=logs", "--nproc=1"]
done = subprocess.run([*search, *where, "--fail_threshold=0.1"], check=False)
assert done.returncode == 0, "it has done nothing"
subprocess.check_call([clang, "-c", "logs/optimized.bc", "-o", "program.o"])
print(Path("program.o").stat().st_size, "bytes of object code")
