"""The published datasets whose programs are bitcode that others compiled with clang 10, as one table.

The facts are CompilerGym's: addresses, checksums and licences. All of these files were published at one place only,
which may be gone; whoever has them can serve them again (`AIOCG_DATASET_MIRROR`), as the checksums say whether they are
the same. LLVM reads the bitcode of all its releases, so the programs are usable as they are.
"""

from collections.abc import Mapping

from aiocg.datasets.published.addresses import stored
from aiocg.datasets.published.cbench import REFERENCES as CBENCH_REFERENCES
from aiocg.datasets.published.poj104 import REFERENCES as POJ104_REFERENCES
from aiocg.datasets.tar import TarDatasetWithManifest

__all__ = ["bitcode_dataset", "bitcode_datasets"]


def bitcode_dataset(
    name: str,
    description: str,
    license: str,
    size: int,
    *,
    sha256: str,
    manifest: str,
    manifest_sha256: str,
    references: Mapping[str, str],
    archive: str = "",
    deprecated: str = "",
) -> TarDatasetWithManifest:
    """Make one of them, which touches no file.

    Args:
        name: the dataset's name, and the folder in the archive.
        description: one line for people.
        license: of the programs, in CompilerGym's words.
        size: how many programs there are, 0 when that is not known.
        sha256: the checksum of the archive, in hexadecimal.
        manifest: the beginning of the name of the file that lists the programs.
        manifest_sha256: its checksum, in hexadecimal.
        references: titles and addresses of where the dataset comes from.
        archive: the beginning of the name of the archive, if it is not the dataset's.
        deprecated: why it should not be used any more.
    """
    return TarDatasetWithManifest(
        f"benchmark://{name}",
        description,
        urls=stored(f"{archive or name}.tar.bz2"),
        sha256=sha256,
        strip_prefix=name,
        suffix=".bc",
        manifest_urls=stored(f"{manifest}-manifest.bz2"),
        manifest_sha256=manifest_sha256,
        license=license,
        references=references,
        size=size,
        deprecated=deprecated,
        sort_order=100 if deprecated else 0,
    )


def bitcode_datasets() -> list[TarDatasetWithManifest]:
    """Make all of them, which touches no file."""
    return [
        bitcode_dataset(
            "blas-v0",
            "Basic linear algebra kernels",
            "BSD 3-Clause",
            300,
            sha256="e724a8114709f8480adeb9873d48e426e8d9444b00cddce48e342b9f0f2b096d",
            manifest="blas-v0",
            manifest_sha256="6946437dcb0da5fad3ed8a7fd83eb4294964198391d5537b1310e22d7ceebff4",
            references={
                "Paper": "https://strum355.netsoc.co/books/PDF/Basic%20Linear%20Algebra%20Subprograms%20for%20"
                "Fortran%20Usage%20-%20BLAS%20(1979).pdf",
                "Homepage": "http://www.netlib.org/blas/",
            },
        ),
        bitcode_dataset(
            "github-v0",
            "Compile-only C/C++ objects from GitHub",
            "CC BY 4.0",
            49738,
            sha256="880269dd7a5c2508ea222a2e54c318c38c8090eb105c0a87c595e9dd31720764",
            manifest="github-v0-linux",
            manifest_sha256="aede9ca78657b4694ada9a4592d93f0bbeb3b3bd0fff3b537209850228480d3b",
            references={"Paper": "https://arxiv.org/pdf/2012.01470.pdf"},
        ),
        bitcode_dataset(
            "linux-v0",
            "Compile-only object files from C Linux kernel",
            "GPL-2.0",
            13894,
            sha256="a1ae5c376af30ab042c9e54dc432f89ce75f9ebaee953bc19c08aff070f12566",
            manifest="linux-v0-linux",
            manifest_sha256="32ceb8576f683798010816ac605ee496f386ddbbe64be9e0796015d247a73f92",
            references={"Homepage": "https://www.linux.org/"},
        ),
        bitcode_dataset(
            "mibench-v1",
            "C benchmarks",
            "BSD 3-Clause",
            40,
            sha256="795b80d3198bc96e394823a4cb294d256845beffccce52fea0e3446395212bb5",
            manifest="mibench-v0",
            manifest_sha256="8ed985d685b48f444a3312cd84ccc5debda4a839850e442a3cdc93910ba0dc5f",
            references={"Paper": "http://vhosts.eecs.umich.edu/mibench/Publications/MiBench.pdf"},
        ),
        bitcode_dataset(
            "npb-v0",
            "NASA Parallel Benchmarks",
            "NASA Open Source Agreement v1.3",
            122,
            sha256="793ac2e7a4f4ed83709e8a270371e65b724da09eaa0095c52e7f4209f63bb1f2",
            manifest="npb-v0",
            manifest_sha256="89eccb7f1b0b9e1f82b9b900b9f686ff5b189a2a67a4f8969a15901cd315dba2",
            references={
                "Paper": "http://optout.csc.ncsu.edu/~mueller/codeopt/codeopt05/projects/www4.ncsu.edu/~pgauria/"
                "csc791a/papers/NAS-95-020.pdf"
            },
        ),
        bitcode_dataset(
            "opencv-v0",
            "Compile-only object files from C++ OpenCV library",
            "Apache 2.0",
            442,
            sha256="003df853bd58df93572862ca2f934c7b129db2a3573bcae69a2e59431037205c",
            manifest="opencv-v0",
            manifest_sha256="8de96f722fab18f3a2a74db74b4038c7947fe8b3da867c9260206fdf5338cd81",
            references={
                "Paper": "https://mipro-proceedings.com/sites/mipro-proceedings.com/files/upload/sp/sp_008.pdf",
                "Homepage": "https://opencv.org/",
            },
        ),
        bitcode_dataset(
            "tensorflow-v0",
            "Compile-only object files from C++ TensorFlow library",
            "Apache 2.0",
            1985,
            sha256="f77dd1988c772e8359e1303cc9aba0d73d5eb27e0c98415ac3348076ab94efd1",
            manifest="tensorflow-v0",
            manifest_sha256="cffc45cd10250d483cb093dec913c8a7da64026686284cccf404623bd1da6da8",
            references={
                "Paper": "https://www.usenix.org/system/files/conference/osdi16/osdi16-abadi.pdf",
                "Homepage": "https://www.tensorflow.org/",
            },
        ),
        bitcode_dataset(
            "cBench-v0",
            "Runnable C benchmarks",
            "BSD 3-Clause",
            23,
            archive="cBench-v0-linux",
            sha256="9b5838a90895579aab3b9375e8eeb3ed2ae58e0ad354fec7eb4f8b31ecb4a360",
            manifest="cBench-v0",
            manifest_sha256="635b94eeb2784dfedb3b53fd8f84517c3b4b95d851ddb662d4c1058c72dc81e0",
            references=CBENCH_REFERENCES,
            deprecated="use cbench-v1; no pass may inline the functions of this one",
        ),
        bitcode_dataset(
            "cBench-v1",
            "Runnable C benchmarks",
            "BSD 3-Clause",
            23,
            archive="cBench-v1-linux",
            sha256="601fff3944c866f6617e653b6eb5c1521382c935f56ca1f36a9f5cf1a49f3de5",
            manifest="cBench-v1",
            manifest_sha256="635b94eeb2784dfedb3b53fd8f84517c3b4b95d851ddb662d4c1058c72dc81e0",
            references=CBENCH_REFERENCES,
            deprecated="use cbench-v1, which has the same programs",
        ),
        bitcode_dataset(
            "mibench-v0",
            "C benchmarks",
            "BSD 3-Clause",
            40,
            sha256="128c090c40b955b99fdf766da167a5f642018fb35c16a1d082f63be2e977eb13",
            manifest="mibench-v0",
            manifest_sha256="8ed985d685b48f444a3312cd84ccc5debda4a839850e442a3cdc93910ba0dc5f",
            references={"Paper": "http://vhosts.eecs.umich.edu/mibench/Publications/MiBench.pdf"},
            deprecated="use mibench-v1; no pass may change the functions of this one",
        ),
        bitcode_dataset(
            "poj104-v0",
            "Solutions to programming programs",
            "BSD 3-Clause",
            49628,
            sha256="6254d629887f6b51efc1177788b0ce37339d5f3456fb8784415ed3b8c25cce27",
            manifest="poj104-v0",
            manifest_sha256="ac3eaaad7d2878d871ed2b5c72a3f39c058ea6694989af5c86cd162414db750b",
            references=POJ104_REFERENCES,
            deprecated="use poj104-v1",
        ),
    ]
