#include "media/media.h"

// Numbers of ITU-T H.273 that are used below.
enum {
    MATRIX_RGB = 0,
    MATRIX_BT709 = 1,
    UNSPECIFIED = 2,
    MATRIX_RESERVED = 3,
    MATRIX_BT601 = 6,
    PRIMARIES_BT709 = 1,
    PRIMARIES_BT601_625 = 5,
    PRIMARIES_BT601_525 = 6,
    TRANSFER_BT709 = 1,
    TRANSFER_BT601 = 6,
    TRANSFER_SRGB = 13,
    MATRIX_BT2020 = 9,
    PRIMARIES_BT2020 = 9,
    RANGE_LIMITED = 1,
    RANGE_FULL = 2,
};

// Code points 0 and 3 of primaries and transfer are reserved: as good as unspecified.
static bool unset(uint8_t v) { return v == 0 || v == UNSPECIFIED || v == MATRIX_RESERVED; }

static struct tachy_color resolve_rgb(struct tachy_color c)
{
    c.matrix = MATRIX_RGB;
    if (unset(c.primaries))
        c.primaries = PRIMARIES_BT709;
    if (unset(c.transfer))
        c.transfer = TRANSFER_SRGB;
    if (c.range != RANGE_LIMITED)
        c.range = RANGE_FULL;
    return c;
}

struct tachy_color tachy_color_resolve(struct tachy_color c, enum tachy_pix f, int width, int height)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f);
    if (d && d->rgb)
        return resolve_rgb(c);
    bool hd = width >= 1280 || height >= 577;
    if (unset(c.matrix)) // the RGB matrix on YUV planes is a zeroed struct, not a statement
        c.matrix = c.primaries == PRIMARIES_BT2020 ? MATRIX_BT2020 : hd ? MATRIX_BT709 : MATRIX_BT601;
    bool sd = c.matrix == 5 || c.matrix == MATRIX_BT601;
    if (unset(c.primaries)) // 576 lines: the 625-line system
        c.primaries = c.matrix == MATRIX_BT2020 || c.matrix == 10 ? PRIMARIES_BT2020
                      : !sd                                        ? PRIMARIES_BT709
                      : height == 576                              ? PRIMARIES_BT601_625
                                                                   : PRIMARIES_BT601_525;
    if (unset(c.transfer))
        c.transfer = sd ? TRANSFER_BT601 : TRANSFER_BT709;
    bool gray = d && d->planes == 1;
    if (c.range != RANGE_LIMITED && c.range != RANGE_FULL) // grey: full, as swscale takes it
        c.range = gray ? RANGE_FULL : RANGE_LIMITED;
    if (!c.chroma_loc)
        c.chroma_loc = 1;
    return c;
}
