#!/bin/sh
# neon.sh: the NEON kernels of preprocess, postprocess and plans against their C twins, and tests of
# plans, cross-compiled for AArch64 and run by QEMU's user mode; the provider's library is linked.
# Nothing is needed of AArch64's packages but the C library. 77: the tools are missing.
# Arguments go to the checker. NEON_CC, NEON_RUN: other compiler and runner (empty: run directly).
# NEON_HOST: the checker built for this machine; the bits of its convolutions are to be the same.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cc=${NEON_CC-aarch64-linux-gnu-gcc}
run=${NEON_RUN-qemu-aarch64}
for tool in "$cc" $run; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# src/media sees FFmpeg's headers (which are the same for every processor); what calls
# FFmpeg is not reached and dropped by the linker.
headers=$(pkg-config --variable=includedir libavutil 2>/dev/null || echo /usr/include)
mkdir "$dir/include"
for lib in libavutil libavcodec libavformat; do
    for place in "$headers" /usr/include/*-linux-gnu; do
        [ -d "$place/$lib" ] && ln -sfn "$place/$lib" "$dir/include/$lib"
    done
    [ -e "$dir/include/$lib" ] || { echo "skipped: the headers of $lib are not installed"; exit 77; }
done
flags="-std=gnu17 -O2 -Wall -Wextra -Wno-unused-parameter -Werror -ffp-contract=off -fno-math-errno
    -fno-trapping-math -D_GNU_SOURCE -DTACHY_VERSION=\"neon\" -I$root/include -I$root/src
    -I$root/.deps/include -idirafter $dir/include -fPIC -ffunction-sections -fdata-sections ${NEON_FLAGS-}"

# compile NAME FLAG SOURCE...: objects into a folder of that name, as many at a time as there are processors.
compile() {
    mkdir "$dir/$1"
    into=$dir/$1 flag=$2
    shift 2
    # shellcheck disable=SC2086
    (cd "$root" && printf '%s\n' "$@" | sed "s|^[^/]|$PWD/&|") |
        (cd "$into" && xargs -P "$(nproc)" -n 4 "$cc" $flags $flag -c)
}

cd "$root"
# Without the kernels of CUDA.
mkdir "$dir/source"
cp tests/check/*.h tests/check/check.c tests/check/check_*.c "$dir/source"
rm "$dir"/source/check_cuda*.c "$dir"/source/check_nn*.c
grep -v -e cuda_ -e nn_ tests/check/ops.inc >"$dir/source/ops.inc"
echo '#include "check_cuda.h"
bool check_gpu_open(struct check_gpu *g) { return false; }
void check_gpu_close(struct check_gpu *g) {}' >"$dir/source/check_no_cuda.c"
compile vec_c "-O0 -DTACHY_VEC=0" src/plan/cpu/vec/*.c
compile vec_neon "-O2 -DTACHY_VEC=3" src/plan/cpu/vec/*.c
compile plan -O1 src/plan/*.c src/plan/cpu/*.c src/ref/ref_*.c
no_cuda='-O0 -DTACHY_CUDA=0 -DTACHY_CUDA_VERSION=0 -DTACHY_CUDA_CHIPS=""'
compile plan_cuda "$no_cuda" src/plan/cuda/*.c
compile nn "$no_cuda" src/cuda/nn/*.c
compile cuda "$no_cuda" src/cuda/*.c
compile base -O1 src/base/base.c src/base/cpu.c src/base/guard.c src/base/index.c src/base/mix.c src/base/numeric.c src/base/path.c src/base/pattern.c src/base/secret.c src/base/store.c src/base/team.c src/base/tensor.c src/base/ycbcr.c
compile media -O1 src/media/color.c src/media/download.c src/media/frame.c
compile preprocess -O2 src/preprocess/*.c
compile postprocess -O2 src/postprocess/*.c
compile flow -O2 src/flow/*.c
compile search -O2 src/search/dot_half.c src/cluster/dots.c
compile check -O1 "$dir"/source/*.c
compile provider -O0 src/provider/*.c
ar=${cc%gcc}ar
command -v "$ar" >/dev/null || ar=ar
"$ar" rcs "$dir/plan.a" "$dir"/plan/*.o "$dir"/base/*.o "$dir"/vec_*/*.o
"$ar" rcs "$dir/nn.a" "$dir"/nn/*.o
"$ar" rcs "$dir/cuda.a" "$dir"/cuda/*.o
link="-pthread -Wl,--gc-sections,-z,defs"
# shellcheck disable=SC2086
"$cc" -shared $link "$dir"/provider/*.o "$dir"/plan_cuda/*.o "$dir/nn.a" "$dir/cuda.a" "$dir/plan.a" -ldl -lm -o "$dir/libtachy_ep.so"
# shellcheck disable=SC2086
"$cc" -static $link "$dir"/check/*.o "$dir"/media/*.o "$dir"/preprocess/*.o "$dir"/postprocess/*.o "$dir"/flow/*.o "$dir"/search/*.o "$dir/plan.a" \
    -lm -o "$dir/tachy_check"
for name in test_plan_joined test_plan_ops test_plan_passes test_plan_resize test_plan_sums; do
    # shellcheck disable=SC2086
    "$cc" $flags -O1 -static -DTACHY_TEST_NO_GPU $link "tests/unit/$name.c" "$dir/plan.a" -lm -o "$dir/$name"
    $run "$dir/$name" >"$dir/said" 2>&1 || { cat "$dir/said"; echo "$name failed"; exit 1; }
    echo "$name: $(grep -c '^ok' "$dir/said") passed"
done

[ $# -gt 0 ] || set -- --seed "$(date +%N | sed 's/^0*//')"
passed=true
$run "$dir/tachy_check" --quick "$@" >"$dir/said" 2>&1 || passed=false
cat "$dir/said"
$passed || { echo "the checker failed"; exit 1; }
if [ -n "${NEON_HOST-}" ]; then
    seed=$(sed -n 's/^seed \([0-9]*\),.*/\1/p' "$dir/said")
    "$NEON_HOST" --quick --seed "$seed" conv winograd >"$dir/host"
    # Only the portable set rounds differently, and it computes no digest.
    if ! grep -q "^seed $seed, c$" "$dir/host" &&
        [ "$(grep ' bits ' "$dir/said")" != "$(grep ' bits ' "$dir/host")" ]; then
        echo "convolutions have other bits than here:"
        grep -h -e ' bits ' -e '^seed' "$dir/said" "$dir/host"
        exit 1
    fi
fi
