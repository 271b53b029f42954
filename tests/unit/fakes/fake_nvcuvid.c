// NVDEC's library, of a chip that decodes H.264 of 8 bits and HEVC of 8 and 10, up to 4096x2304.
#include "fake.h"

FAKE_API int cuvidGetDecoderCaps(struct cuvid_caps *c)
{
    int bits = (int)c->bits_minus_8 + 8;
    c->supported = c->chroma == CUVID_420 &&
                   ((c->codec == CUVID_H264 && bits == 8) || (c->codec == CUVID_HEVC && bits <= 10));
    c->engines = 7;
    c->min_width = c->min_height = 48;
    c->max_width = 4096;
    c->max_height = 2304;
    c->max_blocks = 4096 * 2304 / 256;
    return 0;
}
