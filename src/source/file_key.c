#include "source/file_priv.h"
#include "source/jpeg_head.h"

// Information in a packet, without decoding: whether a fresh decoder may start here, and a number for the parameter
// sets in it. If in doubt the answer is no, and the file gets one decoder. H.264: ITU-T H.264 7.3 and D.1.8 (recovery
// point); HEVC: H.265 7.3; VP8: RFC 6386 9.1; VP9: bitstream specification 6.2; AV1: bitstream specification 5.5, 5.9.

#define HASH_START UINT64_C(14695981039346656037) // FNV-1a

static uint64_t hash(uint64_t h, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        h = (h ^ data[i]) * UINT64_C(1099511628211);
    return h;
}

// --- H.264 and HEVC -------------------------------------------------------------------------
struct units { // NAL units of a packet, one after the other
    const uint8_t *at, *end;
    int length_size; // of the length in front of each; 0: start codes
};

// Position after the next start code 00 00 01, or the end.
static const uint8_t *behind_start_code(const uint8_t *p, const uint8_t *end)
{
    for (; end - p >= 3; p++)
        if (!p[0] && !p[1] && p[2] == 1)
            return p + 3;
    return end;
}

static bool next_unit(struct units *u, const uint8_t **data, size_t *size)
{
    if (u->length_size) {
        size_t n = 0;
        if (u->end - u->at <= u->length_size)
            return false;
        for (int i = 0; i < u->length_size; i++)
            n = n << 8 | *u->at++;
        if (!n || n > (size_t)(u->end - u->at))
            return false;
        *data = u->at;
        *size = n;
        u->at += n;
        return true;
    }
    *data = behind_start_code(u->at, u->end);
    if (*data >= u->end)
        return false;
    // A slice is not searched for its end: nothing after it matters.
    const uint8_t *stop = *data + TACHY_MIN((ptrdiff_t)4096, u->end - *data);
    const uint8_t *next = behind_start_code(*data, stop);
    u->at = next == stop ? stop : next - 3;
    *size = (size_t)(u->at - *data);
    while (*size && !(*data)[*size - 1])
        --*size; // zeros in front of the next start code
    return *size > 0;
}

struct payload { // bytes of a unit without the 3 in 00 00 03
    const uint8_t *at, *end;
    int zeros;
};

static int next_byte(struct payload *p)
{
    if (p->zeros >= 2 && p->at < p->end && *p->at == 3) {
        p->at++;
        p->zeros = 0;
    }
    if (p->at >= p->end)
        return -1;
    p->zeros = *p->at ? 0 : p->zeros + 1;
    return *p->at++;
}

// Type or size of an SEI message: bytes of 255 and a last one.
static int sei_number(struct payload *p)
{
    int n = 0, byte;
    do {
        byte = next_byte(p);
        n += byte;
    } while (byte == 255 && n < 1 << 20);
    return byte < 0 ? -1 : n;
}

// A recovery point at this very picture, exact, with unbroken links: bits 1 (count 0), 1, 0.
static bool sei_recovers_here(const uint8_t *data, size_t size)
{
    struct payload p = {.at = data + 1, .end = data + size};
    for (;;) {
        int type = sei_number(&p), n = sei_number(&p);
        if (type < 0 || n < 0)
            return false;
        for (int i = 0; i < n; i++) {
            int byte = next_byte(&p);
            if (byte < 0)
                return false;
            if (type == 6)
                return byte >> 5 == 6;
        }
    }
}

static void scan_h264(struct units u, struct file_key *k)
{
    const uint8_t *data;
    size_t size;
    while (next_unit(&u, &data, &size)) {
        int type = data[0] & 31;
        if (type == 7 || type == 8)
            k->sets = hash(k->sets ? k->sets : HASH_START, data, size);
        else if (type == 6)
            k->safe |= sei_recovers_here(data, size);
        else if (type == 5)
            k->safe = k->fresh = true;
        if (type < 1 || type > 5)
            continue;
        // The first slice: its first macroblock, 0 as one bit, and its type, 1 or 6 for B.
        k->early = size > 1 && ((data[1] & 0xf0) == 0xa0 || (data[1] & 0xfc) == 0x9c);
        return;
    }
}

static void scan_hevc(struct units u, struct file_key *k)
{
    const uint8_t *data;
    size_t size;
    while (next_unit(&u, &data, &size) && size > 2) {
        int type = data[0] >> 1 & 63;
        if (type >= 32 && type <= 34)
            k->sets = hash(k->sets ? k->sets : HASH_START, data, size);
        if (type >= 32)
            continue;
        // IDR or CRA that does not throw away pictures which were not shown yet. A BLA drops
        // the pictures in front of it, so they would be missed.
        k->safe = type >= 19 && type <= 21 && !(data[2] & 0x40);
        k->early = type >= 6 && type <= 9; // leading pictures
        return;
    }
}

// --- Others ---------------------------------------------------------------------------------
static void scan_vp8(const uint8_t *p, size_t size, struct file_key *k)
{
    k->shown = size > 0 && (p[0] >> 4 & 1);
    k->safe = size >= 10 && !(p[0] & 1) && k->shown;
    if (k->safe)
        k->sets = hash(HASH_START, p + 3, 7); // start code and size
}

static void scan_vp9(const uint8_t *p, size_t size, struct file_key *k)
{
    if (size < 10 || p[0] >> 6 != 2)
        return; // also a picture shown again, which is one byte
    bool several = (p[size - 1] & 0xe0) == 0xc0; // a superframe: its last one is shown
    if (p[0] >> 4 & 3) {                         // profile 0 is what is told apart here
        k->safe = false;
        return;
    }
    bool again = p[0] >> 3 & 1, key = !(p[0] >> 2 & 1), shown = p[0] >> 1 & 1;
    k->shown = again || shown || several;
    k->safe = !again && key && shown && !several;
    if (k->safe) {
        uint8_t last = p[8] & 0xf0;
        k->sets = hash(hash(HASH_START, p + 1, 7), &last, 1); // colour and size
    }
}

// Length of an AV1 unit; the number of bytes it took in *used, 0: none.
static size_t leb128(const uint8_t *p, size_t size, size_t *used)
{
    size_t n = 0;
    *used = 0;
    for (size_t i = 0; i < size && i < 5; i++) {
        n |= (size_t)(p[i] & 127) << 7 * i;
        if (!(p[i] & 128)) {
            *used = i + 1;
            return n;
        }
    }
    return 0;
}

static void scan_av1(const uint8_t *p, size_t size, struct file_key *k)
{
    enum { SEQUENCE = 1, FRAME_HEADER = 3, FRAME = 6 };
    while (size >= 2) {
        int type = p[0] >> 3 & 15;
        size_t head = 1 + (p[0] >> 2 & 1), used = 0, n = size - TACHY_MIN(head, size);
        if (p[0] & 2) {
            n = leb128(p + head, size - head, &used);
            if (!used)
                return;
        }
        head += used;
        if (head > size || n > size - head)
            return;
        if (type == SEQUENCE)
            k->sets = hash(HASH_START, p + head, n);
        if ((type == FRAME_HEADER || type == FRAME) && n) {
            k->safe = k->sets && p[head] >> 4 == 1; // new, a key frame, shown
            return;
        }
        p += head + n;
        size -= head + n;
    }
}

// MPEG-1 and 2: a sequence header sets everything that lasts; its first four bytes are size,
// aspect and rate.
static void scan_mpeg12(const uint8_t *p, size_t size, struct file_key *k)
{
    static const uint8_t header[4] = {0, 0, 1, 0xb3};
    k->safe = size >= 12 && !memcmp(p, header, 4);
    if (k->safe)
        k->sets = hash(HASH_START, p + 4, 4);
    const uint8_t *end = p + size;
    while ((p = behind_start_code(p, end)) < end)
        if (!*p) { // a picture: ten bits of its number, three of its type
            k->early = end - p > 2 && (p[2] >> 3 & 7) == 3;
            return;
        }
}

// MPEG-4 part 2: what stands before the first picture is its parameters. A picture of a few
// bytes is none: writers put them where two pictures share a packet.
static void scan_mpeg4(const uint8_t *p, size_t size, struct file_key *k)
{
    const uint8_t *end = p + size, *at = p;
    k->odd = size < 20;
    while ((at = behind_start_code(at, end)) < end)
        if (*at == 0xb6) { // a picture; its first two bits are 0 for an intra picture
            k->safe = end - at > 1 && !(at[1] >> 6);
            k->early = end - at > 1 && at[1] >> 6 == 2;
            return;
        } else if (*at >= 0x20 && *at <= 0x2f) {
            k->sets = hash(HASH_START, at, (size_t)TACHY_MIN((ptrdiff_t)12, end - at));
        }
}

// --- Pictures -------------------------------------------------------------------------------
// Each stands alone; what a decoder is opened for may change from one to the next.
static void scan_jpeg(const uint8_t *p, size_t size, struct file_key *k)
{
    struct jpeg_head h;
    k->safe = jpeg_head_read(&h, p, size);
    k->odd = !k->safe;
    const uint8_t of[] = {(uint8_t)h.bits,         (uint8_t)(h.width >> 8), (uint8_t)h.width,   (uint8_t)(h.height >> 8),
                          (uint8_t)h.height,       (uint8_t)h.components,   h.sampling[0],      h.sampling[1],
                          h.sampling[2],           h.sampling[3],           (uint8_t)h.transform};
    k->sets = hash(HASH_START, of, sizeof(of));
}

static void scan_png(const uint8_t *p, size_t size, struct file_key *k)
{
    enum { SIGNATURE = 8, LENGTH_AND_TYPE = 8, HEADER = 13 };
    k->safe = size >= SIGNATURE + LENGTH_AND_TYPE + HEADER && !memcmp(p + SIGNATURE + 4, "IHDR", 4);
    k->odd = !k->safe;
    if (k->safe)
        k->sets = hash(HASH_START, p + SIGNATURE + LENGTH_AND_TYPE, HEADER);
}

static int length_size(const AVCodecParameters *par)
{
    bool hevc = par->codec_id == AV_CODEC_ID_HEVC;
    int at = hevc ? 21 : 4;
    if (par->extradata_size <= at || par->extradata[0] != 1)
        return 0;
    return (par->extradata[at] & 3) + 1;
}

struct file_key file_key_of(const AVCodecParameters *par, const AVPacket *packet)
{
    struct file_key k = {.shown = true};
    const uint8_t *p = packet->data;
    size_t size = packet->size > 0 ? (size_t)packet->size : 0;
    struct units u = {p, p + size, length_size(par)};
    switch (par->codec_id) {
    case AV_CODEC_ID_H264:
        scan_h264(u, &k);
        break;
    case AV_CODEC_ID_HEVC:
        scan_hevc(u, &k);
        break;
    case AV_CODEC_ID_VP8:
        scan_vp8(p, size, &k);
        break;
    case AV_CODEC_ID_VP9:
        scan_vp9(p, size, &k);
        break;
    case AV_CODEC_ID_AV1:
        scan_av1(p, size, &k);
        break;
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
        scan_mpeg12(p, size, &k);
        break;
    case AV_CODEC_ID_MPEG4:
        scan_mpeg4(p, size, &k);
        break;
    case AV_CODEC_ID_MJPEG:
        scan_jpeg(p, size, &k);
        break;
    case AV_CODEC_ID_PNG:
        scan_png(p, size, &k);
        break;
    default: // FFV1, and codecs in which every picture is a keyframe, by file_key_known()
        k.safe = true;
    }
    k.safe = k.safe && (packet->flags & AV_PKT_FLAG_KEY);
    return k;
}

bool file_key_known(enum AVCodecID codec)
{
    static const enum AVCodecID known[] = {
        AV_CODEC_ID_H264, AV_CODEC_ID_HEVC,       AV_CODEC_ID_VP8,        AV_CODEC_ID_VP9,
        AV_CODEC_ID_AV1,  AV_CODEC_ID_MPEG1VIDEO, AV_CODEC_ID_MPEG2VIDEO, AV_CODEC_ID_MPEG4,
        AV_CODEC_ID_FFV1, // its keyframes reset everything
        AV_CODEC_ID_PNG,
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(known); i++)
        if (codec == known[i])
            return true;
    const AVCodecDescriptor *d = avcodec_descriptor_get(codec);
    return d && (d->props & AV_CODEC_PROP_INTRA_ONLY);
}
