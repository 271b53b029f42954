#include "plan/cpu/vec/vec_finish.h"
#include "plan/cpu/vec/vec_names.h"

// Independent chains of multiply-adds in registers: with a latency of four cycles twelve keep three
// units busy. Some AArch64 processors have four, and there are registers for twice as many chains.
#if TACHY_VEC == 3
#define CHAINS(M) ROWS12(EACH2, M)
#define P_ROUND CHAINS(P_STEP)
#else
#define CHAINS(M) ROWS12(EACH1, M)
#define P_ROUND CHAINS(P_STEP) CHAINS(P_STEP)
#endif
#define P_INIT(acc, p, v) VF acc = vset1((float)((p) + 12 * (v)) * 1e-3f);
#define P_STEP(acc, p, v) acc = vfma(acc, k, k);
#define P_SUM(acc, p, v) total = vadd(total, acc);

float ISA_NAME(tachy_peak)(int rounds)
{
    const VF k = vset1(0.5f);
    CHAINS(P_INIT)
    for (int i = 0; i < rounds; i++) {
        P_ROUND
    }
    VF total = vset1(0);
    CHAINS(P_SUM)
    return vsum(total);
}
