#pragma once
#include "cuda/device.h"

// Capabilities of a GPU's decoder (NVDEC), asked of the driver. FFmpeg does the decoding itself.

// Coding of a picture.
struct tachy_nvdec_kind {
    int codec;  // CUVID_H264, ...
    int chroma; // CUVID_420, ...
    int bits;   // a sample
};
struct tachy_nvdec_caps {
    bool supported; // false: all else is 0
    int engines;    // decoders of the chip that take it; 0: the driver does not say
    int min_width, min_height, max_width, max_height;
    int64_t max_blocks; // of 16x16 pixels in a picture
};

// The kinds that are asked about, in the order of a list for people; ends with bits 0.
extern const struct tachy_nvdec_kind tachy_nvdec_kinds[];
const char *tachy_nvdec_codec_name(int codec); // "h264", FFmpeg's name; NULL: unknown

// Negative, logged: libnvcuvid is missing (TACHY_ERR_UNAVAILABLE, named), no context.
int tachy_nvdec_ask(struct tachy_nvdec_caps *out, struct tachy_device *d,
                    const struct tachy_nvdec_kind *kind, const struct tachy_log *log);
