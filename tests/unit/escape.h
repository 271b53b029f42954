#pragma once
// Ways out of a sandbox, each tried by code that is inside: what a broken decoder or library would do.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

// The places of the attempts: `out` may be written, `in` (a file elsewhere) read, `away` holds the file `secret`; `out`
// holds the file `own`, and `link`, which points to the secret.
struct escape_ground {
    const char *in, *out, *away;
    int folder; // `away`, opened before the sandbox; -1: it was not
    int sock;   // connected, made before the sandbox; -1: none
};

struct escape {
    const char *name;
    int (*attempt)(const struct escape_ground *g); // 0: it worked; else errno
    bool works; // for everybody outside of a sandbox
};

static inline int escape_errno(long result) { return result < 0 ? errno : 0; }

static inline const char *escape_path(const char *folder, const char *name)
{
    static _Thread_local char path[2][4096];
    static _Thread_local int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
    return path[turn];
}

#define ATTEMPT(name) static inline int escape_##name(const struct escape_ground *g)

ATTEMPT(read) { return escape_errno(open(escape_path(g->away, "secret"), O_RDONLY)); }
ATTEMPT(read_by_link) { return escape_errno(open(escape_path(g->out, "link"), O_RDONLY)); }
ATTEMPT(list) { return opendir(g->away) ? 0 : errno; }
ATTEMPT(write) { return escape_errno(open(escape_path(g->away, "secret"), O_WRONLY)); }
ATTEMPT(write_input) { return escape_errno(open(g->in, O_WRONLY)); }
ATTEMPT(create) { return escape_errno(open(escape_path(g->away, "new"), O_WRONLY | O_CREAT, 0600)); }
ATTEMPT(truncate) { return escape_errno(truncate(escape_path(g->away, "secret"), 0)); }
ATTEMPT(remove) { return escape_errno(unlink(escape_path(g->away, "secret"))); }
ATTEMPT(move_out) { return escape_errno(rename(escape_path(g->out, "own"), escape_path(g->away, "own"))); }
ATTEMPT(move_in) { return escape_errno(rename(escape_path(g->away, "secret"), escape_path(g->out, "s"))); }
ATTEMPT(link_in) { return escape_errno(link(escape_path(g->away, "secret"), escape_path(g->out, "s"))); }
ATTEMPT(symlink) { return escape_errno(symlink(escape_path(g->away, "secret"), escape_path(g->out, "s"))); }
ATTEMPT(make_folder) { return escape_errno(mkdir(escape_path(g->away, "folder"), 0700)); }
ATTEMPT(make_pipe) { return escape_errno(mkfifo(escape_path(g->out, "fifo"), 0600)); }
ATTEMPT(change_mode) { return escape_errno(chmod(escape_path(g->away, "secret"), 0666)); }
ATTEMPT(change_owner) { return escape_errno(chown(escape_path(g->away, "secret"), getuid(), getgid())); }
ATTEMPT(change_times) { return escape_errno(utimensat(AT_FDCWD, escape_path(g->away, "secret"), NULL, 0)); }
ATTEMPT(set_attribute) { return escape_errno(setxattr(escape_path(g->away, "secret"), "user.a", "b", 1, 0)); }
ATTEMPT(other_environment)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)getppid());
    return escape_errno(open(path, O_RDONLY));
}

ATTEMPT(change_input_mode)
{
    int fd = open(g->in, O_RDONLY);
    return fd < 0 ? 0 : escape_errno(fchmod(fd, 0600));
}

ATTEMPT(read_by_handle)
{
    char path[64];
    int fd = open(escape_path(g->away, "secret"), O_PATH);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return fd < 0 ? errno : escape_errno(open(path, O_RDONLY));
}

ATTEMPT(read_by_folder) { return escape_errno(openat(g->folder, "secret", O_RDONLY)); }

static inline void *escape_thread(void *arg)
{
    int *result = arg;
    const struct escape_ground *g;
    memcpy(&g, result + 2, sizeof(g));
    *result = escape_read(g);
    return NULL;
}

ATTEMPT(read_in_a_thread)
{
    pthread_t thread;
    int shared[2 + sizeof(g) / sizeof(int)] = {0};
    memcpy(shared + 2, &g, sizeof(g));
    if (pthread_create(&thread, NULL, escape_thread, shared)) // a sandbox does not restrict threads
        return 0;
    pthread_join(thread, NULL);
    return shared[0];
}

static char *const escape_shell[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
                                     (char *)(uintptr_t) "echo it worked: execute; exit 99", NULL};

ATTEMPT(execute) { return escape_errno(execv("/bin/sh", escape_shell)); }

ATTEMPT(execute_memory)
{
    static const char script[] = "#!/bin/sh\necho it worked: execute_memory\nexit 99\n";
    int fd = memfd_create("script", 0);
    if (fd < 0 || write(fd, script, sizeof(script) - 1) < 0)
        return 0;
    return escape_errno(syscall(SYS_execveat, fd, "", escape_shell, environ, AT_EMPTY_PATH));
}

static inline int escape_child(long pid)
{
    int error = errno;
    if (pid == 0)
        _exit(0);
    return pid > 0 && waitpid((pid_t)pid, NULL, 0) == pid ? 0 : error;
}

ATTEMPT(fork) { return escape_child(fork()); }
ATTEMPT(clone) { return escape_child(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL)); }

ATTEMPT(clone3)
{
    uint64_t args[8] = {[4] = SIGCHLD};
    return escape_child(syscall(SYS_clone3, args, sizeof(args)));
}

ATTEMPT(unshare) { return escape_errno(unshare(CLONE_NEWUSER)); }
ATTEMPT(socket_internet) { return escape_errno(socket(AF_INET, SOCK_STREAM, 0)); }
ATTEMPT(socket_local) { return escape_errno(socket(AF_UNIX, SOCK_STREAM, 0)); }
ATTEMPT(socket_netlink) { return escape_errno(socket(AF_NETLINK, SOCK_RAW, 0)); }
ATTEMPT(socket_pair) { return escape_errno(socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0})); }
ATTEMPT(send) { return escape_errno(send(g->sock, "x", 1, MSG_NOSIGNAL)); }
ATTEMPT(trace) { return escape_errno(ptrace(PTRACE_TRACEME, 0, NULL, NULL)); }
ATTEMPT(trace_other) { return escape_errno(ptrace(PTRACE_SEIZE, getppid(), NULL, NULL)); }

ATTEMPT(read_memory)
{
    char byte;
    struct iovec to = {&byte, 1}, from = {&byte, 1};
    return escape_errno(process_vm_readv(getppid(), &to, 1, &from, 1, 0));
}

ATTEMPT(signal) { return escape_errno(kill(getppid(), 0)); }
ATTEMPT(signal_group) { return escape_errno(kill(0, 0)); }
ATTEMPT(signal_thread) { return escape_errno(syscall(SYS_tgkill, getppid(), getppid(), 0)); }
ATTEMPT(signal_any_thread) { return escape_errno(syscall(SYS_tkill, getppid(), 0)); }
ATTEMPT(process_handle) { return escape_errno(syscall(SYS_pidfd_open, getppid(), 0)); }
ATTEMPT(limits) { return escape_errno(prlimit(getppid(), RLIMIT_NOFILE, NULL, &(struct rlimit){0})); }
ATTEMPT(priority)
{
    return escape_errno(setpriority(PRIO_PROCESS, (id_t)getppid(), getpriority(PRIO_PROCESS, (id_t)getppid())));
}
ATTEMPT(shared_memory) { return escape_errno(shmget(IPC_PRIVATE, 1, 0600)); }
ATTEMPT(uring) { return escape_errno(syscall(SYS_io_uring_setup, 1, (char[256]){0})); }
ATTEMPT(bpf) { return escape_errno(syscall(SYS_bpf, 0, NULL, 0)); }
ATTEMPT(performance) { return escape_errno(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0)); }
ATTEMPT(faults) { return escape_errno(syscall(SYS_userfaultfd, 0)); }
ATTEMPT(keys) { return escape_errno(syscall(SYS_keyctl, 0, -3, 0)); }
// On a path that does not exist: a test that runs as root must not change the machine.
ATTEMPT(unmount) { return escape_errno(umount2("/nonexistent", 0)); }
ATTEMPT(change_root) { return escape_errno(chroot("/nonexistent")); }
ATTEMPT(file_handle)
{
    return escape_errno(syscall(SYS_open_by_handle_at, AT_FDCWD, (char[16]){0}, O_RDONLY));
}
ATTEMPT(filter) { return escape_errno(syscall(SYS_seccomp, 2, 0, &(uint32_t){0x7fff0000})); }
ATTEMPT(type_into_terminal) { return escape_errno(ioctl(STDIN_FILENO, TIOCSTI, "x")); }

#ifdef __x86_64__
// The calls of a 32-bit program, which have other numbers: getpid().
ATTEMPT(old_calls)
{
    long result = 20;
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return result > 0 ? 0 : ENOSYS;
}
#endif

#define ESCAPE(name, works)                                                                        \
    {                                                                                              \
#name, escape_##name, works                                                                \
    }
static const struct escape escapes[] = {
    ESCAPE(read, true), ESCAPE(read_by_link, true), ESCAPE(read_by_handle, true), ESCAPE(read_by_folder, true),
    ESCAPE(read_in_a_thread, true), ESCAPE(list, true), ESCAPE(write, true), ESCAPE(write_input, true),
    ESCAPE(create, true), ESCAPE(truncate, true), ESCAPE(remove, true), ESCAPE(move_out, true),
    ESCAPE(move_in, true), ESCAPE(link_in, true), ESCAPE(symlink, true), ESCAPE(make_folder, true),
    ESCAPE(make_pipe, true), ESCAPE(change_mode, true), ESCAPE(change_owner, true), ESCAPE(change_times, true),
    ESCAPE(change_input_mode, true), ESCAPE(set_attribute, false), ESCAPE(other_environment, true),
    ESCAPE(fork, true), ESCAPE(clone, true), ESCAPE(clone3, false), ESCAPE(unshare, false),
    ESCAPE(socket_internet, true), ESCAPE(socket_local, true), ESCAPE(socket_netlink, true),
    ESCAPE(socket_pair, true), ESCAPE(send, true), ESCAPE(trace, true), ESCAPE(trace_other, false),
    ESCAPE(read_memory, false), ESCAPE(signal, true), ESCAPE(signal_group, true), ESCAPE(signal_thread, true),
    ESCAPE(signal_any_thread, true), ESCAPE(process_handle, true), ESCAPE(limits, true), ESCAPE(priority, true),
    ESCAPE(shared_memory, false), ESCAPE(uring, false), ESCAPE(bpf, false), ESCAPE(performance, false),
    ESCAPE(faults, false), ESCAPE(keys, false), ESCAPE(unmount, false), ESCAPE(change_root, false),
    ESCAPE(file_handle, false), ESCAPE(filter, false), ESCAPE(type_into_terminal, false),
    ESCAPE(execute, true), ESCAPE(execute_memory, true),
#ifdef __x86_64__
    ESCAPE(old_calls, false), // ends the process
#endif
};
enum { N_ESCAPES = sizeof(escapes) / sizeof(escapes[0]) };

// True for the errors that a sandbox causes.
static inline bool escape_is_held(int error)
{
    return error == EPERM || error == EACCES || error == EXDEV || error == ENOSYS;
}
