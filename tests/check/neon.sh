#!/bin/sh
# neon.sh: the NEON kernels against their C twins, cross-compiled for AArch64 and run by QEMU's
# user mode. Only what preprocess and postprocess need is built, statically. 77: the tools are missing.
# NEON_CC, NEON_RUN: other compiler and runner (empty: run directly).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cc=${NEON_CC-aarch64-linux-gnu-gcc}
run=${NEON_RUN-qemu-aarch64}
for tool in "$cc" $run; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# color.c and frame.c see FFmpeg's headers (which are the same for every processor); what calls
# FFmpeg is not reached and dropped by the linker.
headers=$(pkg-config --variable=includedir libavutil 2>/dev/null || echo /usr/include)
mkdir "$dir/include"
for lib in libavutil libavcodec libavformat; do
    for place in "$headers" /usr/include/*-linux-gnu; do
        [ -d "$place/$lib" ] && ln -sfn "$place/$lib" "$dir/include/$lib"
    done
    [ -e "$dir/include/$lib" ] || { echo "skipped: the headers of $lib are not installed"; exit 77; }
done
cat > "$dir/ops.inc" <<'OPS'
OP(preprocess)
OP(composite)
OP(mask)
OP(signature)
OPS
cp "$root"/tests/check/check*.h "$root"/tests/check/check*.c "$dir"
echo '#include "check_cuda.h"
bool check_gpu_open(struct check_gpu *g) { return false; }
void check_gpu_close(struct check_gpu *g) {}' > "$dir/check_cuda.c"
cd "$root"
# shellcheck disable=SC2086
"$cc" -std=gnu17 -O2 -Wall -Wextra -Wno-unused-parameter -Werror -ffp-contract=off -fno-math-errno \
    -D_GNU_SOURCE -DTACHY_VERSION='"neon"' -Iinclude -Isrc -idirafter "$dir/include" -static -pthread \
    -ffunction-sections -fdata-sections -Wl,--gc-sections \
    ${NEON_FLAGS-} "$dir"/check.c "$dir"/check_cuda.c "$dir"/check_preprocess.c \
    "$dir"/check_composite.c "$dir"/check_mask.c "$dir"/check_signature.c src/base/base.c src/base/cpu.c src/base/tensor.c \
    src/media/color.c src/media/frame.c src/ref/ref_*.c src/preprocess/*.c src/postprocess/*.c \
    -o "$dir/tachy_check" -lm
$run "$dir/tachy_check" "$@" preprocess composite mask signature
