#include "base/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef ARCH

// From number 424 on a call has the same number on every processor: those that an older kernel's header
// does not name are named by it.
enum {
    NR_FCHMODAT2 = 452, NR_SETXATTRAT = 463, NR_REMOVEXATTRAT = 466, NR_OPEN_TREE_ATTR = 467,
    NR_FILE_SETATTR = 469,
    NR_LAST = 470, // what a later kernel adds is not there
};

static const int denied[] = {
    // the network, and sockets that are there already
    SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_sendto,
    SYS_sendmsg, SYS_sendmmsg, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg,
    // programs and processes (threads: see below)
    SYS_execve, SYS_execveat,
#ifdef SYS_fork
    SYS_fork, SYS_vfork,
#endif
    SYS_setns, SYS_unshare, SYS_personality,
    // other processes
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise, SYS_process_mrelease,
    SYS_kcmp, SYS_pidfd_open, SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_tkill, SYS_move_pages,
    SYS_migrate_pages, SYS_shmget, SYS_shmat, SYS_shmctl, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl,
    SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink,
    // other ways to the calls above, and much of the kernel that no job needs
    SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_bpf, SYS_perf_event_open,
    SYS_userfaultfd, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_seccomp,
    // files by ways that Landlock does not see, or not in its first versions
    SYS_fchmod, SYS_fchmodat, NR_FCHMODAT2, SYS_fchown, SYS_fchownat, SYS_setxattr, SYS_lsetxattr,
    SYS_fsetxattr, NR_SETXATTRAT, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, NR_REMOVEXATTRAT,
    NR_FILE_SETATTR, SYS_utimensat, SYS_truncate, SYS_mknodat, SYS_name_to_handle_at, SYS_open_by_handle_at,
    SYS_fanotify_init, SYS_quotactl, SYS_quotactl_fd,
#ifdef SYS_chmod
    SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat, SYS_mknod,
#endif
    // the machine
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree, NR_OPEN_TREE_ATTR, SYS_move_mount,
    SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_mount_setattr, SYS_init_module, SYS_finit_module,
    SYS_delete_module, SYS_kexec_load, SYS_reboot, SYS_swapon, SYS_swapoff, SYS_syslog, SYS_acct,
    SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime, SYS_sethostname, SYS_setdomainname,
    SYS_vhangup,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_ioperm
    SYS_ioperm, SYS_iopl, SYS_modify_ldt,
#endif
};

enum { MAX_CODE = 512 };

struct program {
    struct sock_filter code[MAX_CODE];
    unsigned short n;
};

static void put(struct program *p, uint16_t op, uint32_t k, uint8_t if_true, uint8_t if_false)
{
    if (p->n < MAX_CODE)
        p->code[p->n++] = (struct sock_filter)BPF_JUMP(op, k, if_true, if_false);
}

static void load(struct program *p, size_t at) { put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)at, 0, 0); }

static void fail_with(struct program *p, int e)
{
    put(p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)e, 0, 0);
}

static void load_number(struct program *p) { load(p, offsetof(struct seccomp_data, nr)); }

// The low half of an argument: those that are looked at are 32 bits wide for the kernel too.
static void load_argument(struct program *p, int i)
{
    load(p, offsetof(struct seccomp_data, args) + 8 * (size_t)i); // both processors are little-endian
}

static void deny(struct program *p, int number, int e)
{
    put(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
    fail_with(p, e);
}

// Denies this call if its argument i is `value`, or if it is another one.
static void deny_by(struct program *p, int number, int i, uint32_t value, bool equal)
{
    put(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 4);
    load_argument(p, i);
    put(p, BPF_JMP | BPF_JEQ | BPF_K, value, !equal, equal);
    fail_with(p, EPERM);
    load_number(p);
}

static void deny_unless(struct program *p, int number, int i, uint32_t value) { deny_by(p, number, i, value, false); }
static void deny_if(struct program *p, int number, int i, uint32_t value) { deny_by(p, number, i, value, true); }

// Only threads of this process, in the namespaces that it is in.
static void deny_processes(struct program *p)
{
    const uint32_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                CLONE_NEWPID | CLONE_NEWNET;
    put(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 5);
    load_argument(p, 0);
    put(p, BPF_JMP | BPF_JSET | BPF_K, namespaces, 1, 0);
    put(p, BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0);
    fail_with(p, EPERM);
    load_number(p);
    deny(p, SYS_clone3, ENOSYS); // its flags cannot be seen; the C library then calls clone
}

static void write_program(struct program *p)
{
    const uint32_t self = (uint32_t)getpid();
    load(p, offsetof(struct seccomp_data, arch));
    put(p, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
    put(p, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0); // the calls of another processor
    load_number(p);
    put(p, BPF_JMP | BPF_JGT | BPF_K, NR_LAST, 0, 1); // on x86-64 also x32's calls
    fail_with(p, ENOSYS);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(denied); i++)
        deny(p, denied[i], EPERM);
    deny_processes(p);
    deny_unless(p, SYS_kill, 0, self);
    deny_unless(p, SYS_tgkill, 0, self);
    deny_unless(p, SYS_rt_sigqueueinfo, 0, self);
    deny_unless(p, SYS_rt_tgsigqueueinfo, 0, self);
    deny_unless(p, SYS_prlimit64, 0, 0); // of this process
    deny_unless(p, SYS_setpriority, 1, 0);
    deny_if(p, SYS_ioctl, 1, TIOCSTI); // types into the terminal that the process was started from
    deny_if(p, SYS_ioctl, 1, TIOCLINUX);
    put(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

int tachy_seccomp_enter(const struct tachy_log *log)
{
    struct program p = {.n = 0};
    write_program(&p);
    struct sock_fprog code = {.len = p.n, .filter = p.code};
    if (p.n < MAX_CODE && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &code) == 0)
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "sandbox: the kernel takes no filter of system calls (seccomp): %s",
                      strerror(errno));
}

#else

int tachy_seccomp_enter(const struct tachy_log *log)
{
    return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "sandbox: is built for x86-64 and AArch64 only");
}

#endif
