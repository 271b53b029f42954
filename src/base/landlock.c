#include "base/landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// The kernel's header may be older than the kernel.
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

// Linux 5.19: a file can be renamed to another folder, which --resume needs. Actions that an older kernel cannot deny
// here (truncate, ioctl) are denied as system calls, in seccomp.c.
enum { ABI_LEAST = 2, ABI_TRUNCATE = 3, ABI_NET = 4, ABI_IOCTL = 5, ABI_SCOPE = 6 };

#define READ_ONLY (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_ONLY (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)
#define FOLDER                                                                                     \
    (READ_ONLY | WRITE_ONLY | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |          \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REFER)
#define OF_A_FILE (LANDLOCK_ACCESS_FS_READ_FILE | WRITE_ONLY)

// Actions denied unless a rule allows them; an older kernel gets only the first part.
struct attributes {
    uint64_t files;
    uint64_t net;    // TCP: bind, connect
    uint64_t scoped; // abstract sockets and signals that leave the sandbox
};

// Landlock's rules hold for a thread and those it starts.
static int check_threads(const struct tachy_log *log)
{
    DIR *dir = opendir("/proc/self/task");
    int n = 0;
    for (const struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    if (n == 1)
        return TACHY_OK;
    return n ? tachy_fail(log, TACHY_ERR_STATE, "sandbox: %d threads run already, and it can only hold one", n)
             : tachy_fail(log, TACHY_ERR_UNSUPPORTED, "sandbox: /proc is needed, to see whether other threads run");
}

int tachy_landlock_open(struct tachy_landlock *l, const struct tachy_log *log)
{
    *l = (struct tachy_landlock){.fd = -1, .log = log};
    int err = check_threads(log);
    if (err < 0)
        return err;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 0)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                          "sandbox: this kernel has no Landlock (%s): Linux 5.19 or newer is needed, with "
                          "landlock among its security modules (the lsm= of its command line)",
                          strerror(errno));
    if (abi < ABI_LEAST)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                          "sandbox: this kernel's Landlock is version %ld, and %d is needed: Linux 5.19 or newer",
                          abi, ABI_LEAST);
    int bits = abi >= ABI_IOCTL ? 16 : abi >= ABI_TRUNCATE ? 15 : 14;
    struct attributes a = {.files = (UINT64_C(1) << bits) - 1, .net = 3, .scoped = 3};
    size_t size = abi >= ABI_SCOPE ? sizeof(a)
                  : abi >= ABI_NET ? offsetof(struct attributes, scoped)
                                   : offsetof(struct attributes, net);
    l->known = a.files;
    l->fd = (int)syscall(SYS_landlock_create_ruleset, &a, size, 0);
    if (l->fd >= 0)
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "sandbox: Landlock refuses its rules: %s", strerror(errno));
}

static int allow(struct tachy_landlock *l, const char *path, uint64_t rights)
{
    struct stat st;
    struct landlock_path_beneath_attr rule = {.parent_fd = open(path, O_PATH | O_CLOEXEC)};
    if (rule.parent_fd < 0 || fstat(rule.parent_fd, &st) < 0) {
        int e = errno;
        if (rule.parent_fd >= 0)
            close(rule.parent_fd);
        return tachy_fail(l->log, tachy_err_from_errno(e), "sandbox: %s cannot be opened: %s", path, strerror(e));
    }
    rule.allowed_access = rights & l->known & (S_ISDIR(st.st_mode) ? ~UINT64_C(0) : OF_A_FILE);
    long failed = syscall(SYS_landlock_add_rule, l->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    int e = errno;
    close(rule.parent_fd);
    return failed ? tachy_fail(l->log, TACHY_ERR_UNSUPPORTED, "sandbox: %s cannot be allowed: %s", path, strerror(e))
                  : TACHY_OK;
}

int tachy_landlock_read(struct tachy_landlock *l, const char *path)
{
    return access(path, F_OK) == 0 ? allow(l, path, READ_ONLY) : TACHY_OK;
}

int tachy_landlock_write(struct tachy_landlock *l, const char *folder) { return allow(l, folder, FOLDER); }

int tachy_landlock_write_file(struct tachy_landlock *l, const char *path) { return allow(l, path, WRITE_ONLY); }

int tachy_landlock_enter(struct tachy_landlock *l)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_landlock_restrict_self, l->fd, 0) == 0)
        return TACHY_OK;
    return tachy_fail(l->log, TACHY_ERR_UNSUPPORTED, "sandbox: Landlock cannot be turned on: %s", strerror(errno));
}

void tachy_landlock_close(struct tachy_landlock *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}
