#include "source/file_priv.h"

#include <ctype.h>
#include <libavutil/display.h>
#include <libavutil/stereo3d.h>
#include <math.h>
#include <stdlib.h>

const uint8_t *file_side_data(const AVStream *st, enum AVPacketSideDataType type, size_t *size)
{
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 100)
    const AVPacketSideData *d = av_packet_side_data_get(
        st->codecpar->coded_side_data, st->codecpar->nb_coded_side_data, type);
    *size = d ? d->size : 0;
    return d ? d->data : NULL;
#else
    *size = 0;
    return av_stream_get_side_data(st, type, size);
#endif
}

void file_rotation(const int32_t matrix[9], int *rotation, bool *flipped)
{
    int32_t m[9];
    memcpy(m, matrix, sizeof(m));
    double det = (double)m[0] * m[4] - (double)m[1] * m[3];
    *flipped = det < 0;
    if (*flipped) { // take the mirroring in front of the turn away
        m[0] = m[0] == INT32_MIN ? INT32_MAX : -m[0];
        m[1] = m[1] == INT32_MIN ? INT32_MAX : -m[1];
    }
    double counterclockwise = av_display_rotation_get(m);
    *rotation = 0;
    if (isfinite(counterclockwise))
        *rotation = (int)((360 - lrint(counterclockwise / 90) * 90) % 360);
}

// Whole words of file names; two-letter ones count only after another word, so that a file named tb.mp4 is not mistaken
// for a stereo picture.
static const struct {
    const char *word;
    enum tachy_stereo stereo;
} hints[] = {
    {"sbs", TACHY_STEREO_SBS},        {"hsbs", TACHY_STEREO_SBS}, {"fsbs", TACHY_STEREO_SBS},
    {"sidebyside", TACHY_STEREO_SBS}, {"3dh", TACHY_STEREO_SBS},  {"lr", TACHY_STEREO_SBS},
    {"rl", TACHY_STEREO_SBS},         {"tab", TACHY_STEREO_TB},   {"htab", TACHY_STEREO_TB},
    {"hou", TACHY_STEREO_TB},         {"3dv", TACHY_STEREO_TB},   {"overunder", TACHY_STEREO_TB},
    {"topbottom", TACHY_STEREO_TB},   {"tb", TACHY_STEREO_TB},    {"ou", TACHY_STEREO_TB},
};

static enum tachy_stereo stereo_of_word(const char *word, size_t n, bool first)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(hints); i++)
        if (strlen(hints[i].word) == n && !strncasecmp(word, hints[i].word, n) && !(first && n < 3))
            return hints[i].stereo;
    return TACHY_STEREO_AUTO;
}

static enum tachy_stereo stereo_of_name(const char *url)
{
    const char *slash = strrchr(url, '/'), *p = slash ? slash + 1 : url, *name = p;
    const char *dot = strrchr(p, '.'), *end = dot ? dot : p + strlen(p);
    enum tachy_stereo found = TACHY_STEREO_AUTO;
    while (p < end && !found) {
        const char *word = p;
        while (p < end && isalnum((unsigned char)*p))
            p++;
        if (p > word)
            found = stereo_of_word(word, (size_t)(p - word), word == name);
        else
            p++;
    }
    return found;
}

// Two 16:9 pictures of the usual sizes side by side, or two 2:1 panoramas. 2:1 and 1:1 say
// nothing: a panorama for both eyes is 2:1 as well.
static enum tachy_stereo stereo_of_size(int width, int height)
{
    bool pair = (width == 3840 && height == 1080) || (width == 7680 && height == 2160);
    bool panoramas = width >= 3840 && width == 4 * height;
    return pair || panoramas ? TACHY_STEREO_SBS : TACHY_STEREO_AUTO;
}

static enum tachy_stereo stereo_of_type(enum AVStereo3DType type)
{
    switch (type) {
    case AV_STEREO3D_2D:
        return TACHY_STEREO_MONO;
    case AV_STEREO3D_SIDEBYSIDE:
        return TACHY_STEREO_SBS;
    case AV_STEREO3D_TOPBOTTOM:
        return TACHY_STEREO_TB;
    default:
        return TACHY_STEREO_AUTO;
    }
}

enum tachy_stereo file_stereo(const AVStream *st, const AVFrame *first, const char *url, int width,
                              int height, const char **from)
{
    size_t size = 0;
    const uint8_t *data = file_side_data(st, AV_PKT_DATA_STEREO3D, &size);
    const AVFrameSideData *sd = first ? av_frame_get_side_data(first, AV_FRAME_DATA_STEREO3D) : NULL;
    if (!data && sd) {
        data = sd->data;
        size = sd->size;
    }
    enum tachy_stereo stereo = TACHY_STEREO_AUTO;
    *from = "side data";
    if (data && size >= sizeof(enum AVStereo3DType))
        stereo = stereo_of_type(((const AVStereo3D *)(const void *)data)->type);
    if (stereo == TACHY_STEREO_AUTO) {
        stereo = stereo_of_name(url);
        *from = "name";
    }
    if (stereo == TACHY_STEREO_AUTO) {
        stereo = stereo_of_size(width, height);
        *from = "aspect";
    }
    if (stereo == TACHY_STEREO_AUTO) {
        stereo = TACHY_STEREO_MONO;
        *from = "default";
    }
    return stereo;
}

static bool valid(AVRational r) { return r.num > 0 && r.den > 0; }

struct tachy_rational file_fps(AVFormatContext *fmt, AVStream *st)
{
    AVRational r = valid(st->avg_frame_rate) ? st->avg_frame_rate : av_guess_frame_rate(fmt, st, NULL);
    if (!valid(r) || av_q2d(r) > 100000)
        return (struct tachy_rational){0, 0};
    return (struct tachy_rational){r.num, r.den};
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Coarse time bases round: distances may differ by two ticks, and by a tenth.
bool file_times_vary(int64_t *times, int n, int skip_last)
{
    qsort(times, (size_t)n, sizeof(times[0]), compare);
    int64_t least = INT64_MAX, most = 0;
    for (int i = 1; i < n - skip_last; i++) {
        int64_t d = av_sat_sub64(times[i], times[i - 1]);
        least = TACHY_MIN(least, d);
        most = TACHY_MAX(most, d);
    }
    return most && most - least > TACHY_MAX(2, least / 10);
}

int file_index_varies(AVStream *st)
{
    enum { ENTRIES = 5000 };
    int n = TACHY_MIN(avformat_index_get_entries_count(st), ENTRIES);
    // Other containers index their keyframes only.
    if (n < 3 || st->nb_frames < n || avformat_index_get_entries_count(st) < st->nb_frames)
        return -1;
    int64_t *times = malloc((size_t)n * sizeof(*times));
    if (!times)
        return -1;
    for (int i = 0; i < n; i++)
        times[i] = avformat_index_get_entry(st, i)->timestamp;
    // The last sample's distance is often made up by the writer.
    bool vary = file_times_vary(times, n, 1);
    free(times);
    return vary;
}
