#include "plan/cpu/vec/vec_finish.h"
#include "plan/cpu/vec/vec_names.h"

// Twelve independent chains of multiply-adds in registers.
#define P_INIT(acc, p, v) VF acc = vset1((float)(p) * 1e-3f);
#define P_STEP(acc, p, v) acc = vfma(acc, k, k);
#define P_SUM(acc, p, v) total = vadd(total, acc);

float ISA_NAME(tachy_peak)(int rounds)
{
    const VF k = vset1(0.5f);
    ROWS12(EACH1, P_INIT)
    for (int i = 0; i < rounds; i++) {
        ROWS12(EACH1, P_STEP)
        ROWS12(EACH1, P_STEP)
    }
    VF total = vset1(0);
    ROWS12(EACH1, P_SUM)
    return vsum(total);
}
