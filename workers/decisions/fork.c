/* A compiler that waits for an answer forks when a signal says so.

   It waits in read(2) on its answers. The signal's handler runs on that thread: it takes three descriptors from the
   control socket (answers, questions and control of the new process), forks, puts them in the place of its own in the
   new process, and says the new process id on its own control socket. Both processes then go on waiting: the read is
   restarted. Nothing is locked meanwhile, since the thread was in a system call, and it is the only one.

   There is no C library here: see native_code.py. */

typedef unsigned long word;

enum { ANSWERS = 3, QUESTIONS = 4, CONTROL = 5, KEPT = 6, MOST = 64 }; /* as in compiling.py */
enum { SOL_SOCKET_ = 1, SCM_RIGHTS_ = 1, O_CLOEXEC_ = 02000000, PDEATHSIG = 1, KILL = 9, CHLD = 17 };
enum { CLONE_PARENT_ = 0x8000 };

#if defined __x86_64__
enum { WRITE = 1, CLOSE = 3, FSTAT = 5, RECVMSG = 47, CLONE = 56, EXIT = 231, GETPPID = 110, PRCTL = 157, DUP3 = 292 };
static word call(word number, word a, word b, word c, word d, word e) {
    word result;
    register word fourth __asm__("r10") = d, fifth __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined __aarch64__
enum { WRITE = 64, CLOSE = 57, FSTAT = 80, RECVMSG = 212, CLONE = 220, EXIT = 94, GETPPID = 173, PRCTL = 167, DUP3 = 24 };
static word call(word number, word a, word b, word c, word d, word e) {
    register word x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register word x3 __asm__("x3") = d, x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
#else
#error "decisions need Linux on x86-64 or AArch64"
#endif

struct file { word device, node, rest[30]; };       /* struct stat, of which the first two members are wanted */
struct piece { void *base; word length; };          /* struct iovec */
struct message {                                    /* struct msghdr */
    void *name;
    unsigned name_length;
    struct piece *pieces;
    word piece_count;
    void *control;
    word control_length;
    int flags;
};
struct rights { word length; int level, type, descriptors[4]; }; /* struct cmsghdr with three descriptors */

static word parent;

static int same(int one, const struct file *other) {
    struct file file;
    return call(FSTAT, one, (word)&file, 0, 0, 0) == 0 && file.device == other->device && file.node == other->node;
}

/* Put a descriptor in the place of one of the old ones, wherever LLVM has opened that again. */
static void replace(int fresh, int old) {
    struct file file;
    call(FSTAT, old, (word)&file, 0, 0, 0);
    for (int one = ANSWERS; one < MOST; one++)
        if (one != fresh && same(one, &file)) call(DUP3, fresh, one, O_CLOEXEC_, 0, 0);
    call(CLOSE, fresh, 0, 0, 0, 0);
}

/* Called by the process that compiles, with the process id of the worker. */
__attribute__((visibility("default"))) void aiocg_fork_of(word worker) { parent = worker; }

/* The handler of the signal. */
__attribute__((visibility("default"))) void aiocg_fork(int number) {
    (void)number;
    char byte = 0;
    struct rights rights = {.descriptors = {-1, -1, -1, -1}};
    struct piece piece = {&byte, 1};
    struct message message = {.pieces = &piece, .piece_count = 1, .control = &rights, .control_length = sizeof rights};
    if ((long)call(RECVMSG, CONTROL, (word)&message, 0, 0, 0) != 1 || rights.type != SCM_RIGHTS_) return;
    long child = (long)call(CLONE, CLONE_PARENT_ | CHLD, 0, 0, 0, 0);
    if (child == 0) {
        call(PRCTL, PDEATHSIG, KILL, 0, 0, 0);
        if (call(GETPPID, 0, 0, 0, 0, 0) != parent) call(EXIT, 1, 0, 0, 0, 0);
        replace(rights.descriptors[0], ANSWERS);
        replace(rights.descriptors[1], QUESTIONS);
        replace(rights.descriptors[2], CONTROL);
        return;
    }
    for (int one = 0; one < 3; one++) call(CLOSE, rights.descriptors[one], 0, 0, 0, 0);
    call(WRITE, CONTROL, (word)&child, sizeof child, 0, 0);
}
