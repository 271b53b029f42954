// Loaded in front of a program (LD_PRELOAD), hides instruction sets from it and its libraries, as an older
// processor would: HIDE_CPU=vnni the int8 instructions (VNNI, AMX), HIDE_CPU=avx512 also AVX-512. For
// measurements on one machine; Linux on x86-64 whose processor lets CPUID fault (cpuid_fault in /proc/cpuinfo).
// Not for tests of what a library does without an instruction: one that runs it unasked still can.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define BIT(n) (1u << (n))

static int hide_avx512;

// Bits of CPUID's leaf 7, named in Intel's manual, volume 2A.
static void hide(unsigned leaf, unsigned sub, unsigned *a, unsigned *b, unsigned *c, unsigned *d)
{
    if (leaf != 7)
        return;
    if (sub == 0) {
        *c &= ~BIT(11);                                 // AVX512_VNNI
        *d &= ~(BIT(22) | BIT(23) | BIT(24) | BIT(25)); // AMX, AVX512_FP16
        if (hide_avx512)
            *b &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(28) | BIT(30) | BIT(31));
    } else if (sub == 1) {
        *a &= ~(BIT(4) | BIT(5) | BIT(21)); // AVX_VNNI, AVX512_BF16, AMX-FP16
        *d &= ~(BIT(4) | BIT(5) | BIT(10)); // AVX_VNNI_INT8, AVX_NE_CONVERT, AVX_VNNI_INT16
    }
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)r[REG_RIP];
    (void)info;
    if (at[0] != 0x0f || at[1] != 0xa2) { // not CPUID: a fault as ever
        signal(signal_number, SIG_DFL);
        return;
    }
    unsigned leaf = (unsigned)r[REG_RAX], sub = (unsigned)r[REG_RCX], a = leaf, b, c = sub, d;
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
    hide(leaf, sub, &a, &b, &c, &d);
    r[REG_RAX] = a, r[REG_RBX] = b, r[REG_RCX] = c, r[REG_RDX] = d;
    r[REG_RIP] += 2;
}

__attribute__((constructor)) static void start(void)
{
    const char *what = getenv("HIDE_CPU");
    if (!what || !*what)
        return;
    hide_avx512 = !strcmp(what, "avx512");
    struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &act, NULL);
    if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0)) {
        perror("hide_cpu: CPUID cannot be made to fault here");
        _exit(1);
    }
}
