#include "source/jpeg_head.h"

enum { SOF0 = 0xc0, DHT = 0xc4, JPG = 0xc8, DAC = 0xcc, SOF15 = 0xcf, RST0 = 0xd0, EOI = 0xd9, SOS = 0xda, APP14 = 0xee, TEM = 0x01 };

static int number(const uint8_t *p) { return p[0] << 8 | p[1]; }

static bool read_frame(struct jpeg_head *h, int marker, const uint8_t *p, size_t size)
{
    if (size < 6 || size < 6 + 3 * (size_t)p[5] || p[5] < 1 || p[5] > 4)
        return false;
    h->process = marker - SOF0;
    h->bits = p[0];
    h->height = number(p + 1);
    h->width = number(p + 3);
    h->components = p[5];
    for (int i = 0; i < h->components; i++) {
        h->name[i] = p[6 + 3 * i];
        h->sampling[i] = p[6 + 3 * i + 1];
    }
    return h->width > 0 && h->height > 0;
}

bool jpeg_head_read(struct jpeg_head *h, const uint8_t *data, size_t size)
{
    const uint8_t *p = data, *end = data + size;
    bool found = false;
    *h = (struct jpeg_head){.transform = -1};
    while (end - p >= 4) {
        int marker = p[1];
        if (p[0] != 0xff || marker == SOS || marker == EOI)
            return found;
        if (marker == 0xff || marker == TEM || (marker >= RST0 && marker < EOI)) { // alone, or filled up
            p += marker == 0xff ? 1 : 2;
            continue;
        }
        size_t length = (size_t)number(p + 2);
        if (length < 2 || length > (size_t)(end - p) - 2)
            return false;
        if (marker >= SOF0 && marker <= SOF15 && marker != DHT && marker != JPG && marker != DAC) {
            if (found || !read_frame(h, marker, p + 4, length - 2))
                return false;
            found = true;
        } else if (marker == APP14 && length >= 14 && !memcmp(p + 4, "Adobe", 5)) {
            h->transform = p[4 + 11];
        }
        p += 2 + length;
    }
    return false;
}
