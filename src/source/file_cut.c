#include "source/file_priv.h"

#include <stdlib.h>

// Cuts the stream into segments that decoders process in parallel. One demuxer reads, as for a single decoder, so
// sound, time jumps and damage come in the same order; nothing is read twice and there are no seeks. A segment begins
// at a keyframe at which a fresh decoder may start. Pictures after it that are shown before it (leading pictures of an
// open GOP) belong to the previous segment, whose decoder gets the keyframe as well. Packet times tell how many
// positions a segment has before anything is decoded. If they do not (missing, duplicate, damaged), cutting ends for
// good and one decoder does the rest. A segment's pictures are counted in the order in which they come, not placed by
// their times: after damage their order may differ, and none may be lost. All functions here are called with the lanes'
// lock held.

enum {
    SEGMENT_MIN = 24,      // pictures: restarting a decoder costs a little
    WAITING_MAX = 64 << 20 // bytes of packets read ahead
};

static struct file_segment *new_segment(void)
{
    struct file_segment *g = calloc(1, sizeof(*g));
    if (g) {
        g->begin = INT64_MIN;
        g->end = g->next_begin = INT64_MAX;
        g->last = AV_NOPTS_VALUE;
    }
    return g;
}

static void segment_free(struct file_cut *c, struct file_segment **segment)
{
    struct file_segment *g = *segment;
    *segment = NULL;
    if (!g)
        return;
    for (int i = g->taken; i < g->nb; i++) {
        c->bytes -= (size_t)g->packets[i].packet->size;
        av_packet_free(&g->packets[i].packet);
    }
    free(g->packets);
    free(g->times);
    free(g);
}

// Appends a new reference to the packet.
static int append(struct file_cut *c, struct file_segment *g, const AVPacket *packet, bool lead)
{
    if (g->taken && g->taken == g->nb)
        g->taken = g->nb = 0;
    if (g->nb == g->room) {
        int room = TACHY_MAX(32, 2 * g->room);
        void *packets = realloc(g->packets, (size_t)room * sizeof(g->packets[0]));
        if (!packets)
            return TACHY_ERR_NOMEM;
        g->packets = packets;
        g->room = room;
    }
    AVPacket *copy = av_packet_clone(packet);
    if (!copy)
        return TACHY_ERR_NOMEM;
    g->packets[g->nb++] = (struct file_packet){copy, lead};
    c->bytes += (size_t)copy->size;
    return TACHY_OK;
}

// Number of times below `t`.
static int rank_of(const struct file_segment *g, int64_t t)
{
    int low = 0, high = g->nb_times;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (g->times[middle] < t)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_time(const struct file_segment *g, int64_t t)
{
    int at = rank_of(g, t);
    return at < g->nb_times && g->times[at] == t;
}

// Notes a picture's time, which is new.
static int add_time(struct file_segment *g, int64_t t)
{
    if (g->nb_times == g->room_times) {
        int room = TACHY_MAX(64, 2 * g->room_times);
        void *times = realloc(g->times, (size_t)room * sizeof(g->times[0]));
        if (!times)
            return TACHY_ERR_NOMEM;
        g->times = times;
        g->room_times = room;
    }
    int at = rank_of(g, t);
    memmove(g->times + at + 1, g->times + at, (size_t)(g->nb_times - at) * sizeof(g->times[0]));
    g->times[at] = t;
    g->nb_times++;
    return TACHY_OK;
}

static int64_t latest(const struct file_segment *g)
{
    return g->nb_times ? g->times[g->nb_times - 1] : INT64_MIN;
}

// Ticks from the file's time 0.
static int64_t from_zero(const struct file *p, int64_t pts) { return av_sat_sub64(pts, p->zero); }

// True if a decoder's picture of this packet is output.
static bool is_visible(const tachy_source *s, const struct file *p, const AVPacket *packet)
{
    int64_t t = from_zero(p, packet->pts);
    return !(packet->flags & AV_PKT_FLAG_DISCARD) && (t >= p->start || s->params.start <= 0) &&
           t < p->end;
}

// The coming segment is none: its packets continue the one before.
static int join(struct file_cut *c)
{
    struct file_segment *g = c->coming;
    bool key_is_there = c->tail->end != INT64_MAX;
    int err = TACHY_OK;
    for (int i = key_is_there; g && i < g->nb && !err; i++)
        if (!g->packets[i].lead)
            err = append(c, c->tail, g->packets[i].packet, false);
    for (int i = 0; g && i < g->nb_times && !err; i++)
        err = add_time(c->tail, g->times[i]);
    c->tail->end = INT64_MAX;
    segment_free(c, &c->coming);
    return err;
}

int file_cut_stop(tachy_source *s, const char *why)
{
    struct file_cut *c = &file_of(s)->cut;
    if (!c->on)
        return TACHY_OK;
    c->on = false;
    if (c->lanes > 1)
        tachy_msg(s->params.log, TACHY_LOG_VERBOSE, "%s: one decoder from here on: %s", s->url, why);
    int err = c->tail ? join(c) : TACHY_OK;
    if (c->tail) {
        c->tail->counted = true;
        free(c->tail->times);
        c->tail->times = NULL;
        c->tail->room_times = 0; // nb_times stays: what the segments before need is known
    }
    return err;
}

// The reason why nothing can be cut from here on; NULL: none.
static const char *oddity(const struct file *p, const AVPacket *packet, const struct file_key *k)
{
    const struct file_cut *c = &p->cut;
    size_t size;
    if (packet->pts == AV_NOPTS_VALUE)
        return "a picture has no time";
    if (packet->flags & AV_PKT_FLAG_CORRUPT)
        return "a packet is damaged";
    if ((packet->flags & AV_PKT_FLAG_DISCARD) && !c->first)
        return "the edit list leaves pictures out in the middle";
    if ((k->sets && c->sets && k->sets != c->sets) ||
        av_packet_get_side_data(packet, AV_PKT_DATA_NEW_EXTRADATA, &size))
        return "the stream changes its parameters";
    if (k->odd)
        return "a packet holds no picture";
    // Its decoder makes a picture for the one that is missing in front, which has no place.
    if (p->st->codecpar->codec_id == AV_CODEC_ID_MPEG4 && !k->safe && c->first && !c->tail->nb && !c->tail->taken)
        return "it begins within a group of pictures";
    return NULL;
}

// The coming segment becomes the last one.
static void confirm(struct file_cut *c)
{
    struct file_segment *g = c->coming, *before = c->tail;
    g->base = before->base + before->nb_times;
    g->last = latest(before);
    before->next_begin = g->begin;
    before->whole = true;
    before->next = g;
    if (!c->head)
        c->head = g;
    c->tail = g;
    c->coming = NULL;
    c->first = false;
}

// A picture shown before the keyframe that lies in front of it in the file.
static int add_leading(tachy_source *s, const AVPacket *packet, bool visible)
{
    struct file *p = file_of(s);
    struct file_cut *c = &p->cut;
    struct file_segment *g = c->coming;
    int err = TACHY_OK;
    if (c->tail->end == INT64_MAX)
        err = append(c, c->tail, g->packets[0].packet, false);
    c->tail->end = g->begin;
    if (!err)
        err = append(c, c->tail, packet, false);
    // Only H.264 may need it for the order of its references, though its picture is not used.
    if (!err && p->st->codecpar->codec_id == AV_CODEC_ID_H264)
        err = append(c, g, packet, true);
    if (!err && visible)
        err = add_time(c->tail, packet->pts);
    return err;
}

static int add_to(struct file_cut *c, struct file_segment *g, const AVPacket *packet, bool visible)
{
    int err = append(c, g, packet, false);
    return err || !visible ? err : add_time(g, packet->pts);
}

static int begin_segment(tachy_source *s, const AVPacket *packet, bool fresh)
{
    struct file_cut *c = &file_of(s)->cut;
    c->coming = new_segment();
    if (!c->coming)
        return TACHY_ERR_NOMEM;
    c->coming->begin = packet->pts;
    c->coming->fresh = fresh;
    return add_to(c, c->coming, packet, true);
}

// Adds a packet that follows the last keyframe at which a segment may begin. The segment begins once there are enough
// packets: a decoder that is drained before it has output a picture loses some after an open group.
static int add_to_coming(tachy_source *s, const AVPacket *packet, bool visible)
{
    struct file_cut *c = &file_of(s)->cut;
    if (packet->pts < c->coming->begin)
        return c->coming->nb_times > 1 ? TACHY_ERR_INVAL : add_leading(s, packet, visible);
    int err = add_to(c, c->coming, packet, visible);
    if (!err && c->coming->nb_times >= SEGMENT_MIN)
        confirm(c);
    return err;
}

// Notes what the order of the times so far reveals about the stream.
static void note_time(struct file_cut *c, const AVPacket *packet, const struct file_key *k)
{
    c->reorders |= packet->pts < c->latest;
    c->latest = TACHY_MAX(c->latest, packet->pts);
    if (!k->early)
        c->anchor = packet->pts;
}

// True if a picture that is shown before an earlier packet's does not have such a time: in packets that have decoding
// times (former AVI files), or if one is lost.
static bool out_of_order(const struct file *p, const AVPacket *packet, const struct file_key *k)
{
    const struct file_cut *c = &p->cut;
    bool may_cut = k->safe && c->tail->nb_times >= SEGMENT_MIN;
    switch (p->st->codecpar->codec_id) {
    case AV_CODEC_ID_H264: // a B picture may be a reference for pictures shown after it
        return k->early && !c->reorders;
    case AV_CODEC_ID_HEVC: // its slices' types say nothing, but it says in front whether it reorders
        return (k->early || (may_cut && p->st->codecpar->video_delay > 0)) && !c->reorders;
    default:
        return k->early && packet->pts > c->anchor;
    }
}

// TACHY_ERR_INVAL: its time is out of place; nothing was added.
static int add_regular(tachy_source *s, const AVPacket *packet, const struct file_key *k)
{
    struct file *p = file_of(s);
    struct file_cut *c = &p->cut;
    bool visible = k->shown && is_visible(s, p, packet);
    if (k->sets)
        c->sets = k->sets;
    c->past_end |= from_zero(p, packet->pts) >= p->end;
    note_time(c, packet, k);
    if (out_of_order(p, packet, k) || has_time(c->tail, packet->pts) ||
        (c->coming && has_time(c->coming, packet->pts)))
        return TACHY_ERR_INVAL;
    int err = c->coming && c->past_end ? join(c) : TACHY_OK;
    if (err)
        return err;
    if (c->coming)
        return add_to_coming(s, packet, visible);
    if (packet->pts < c->tail->begin)
        return TACHY_ERR_INVAL;
    bool cut = k->safe && visible && c->lanes > 1 && c->tail->nb_times >= SEGMENT_MIN &&
               packet->pts > latest(c->tail);
    return cut ? begin_segment(s, packet, k->fresh) : add_to(c, c->tail, packet, visible);
}

static int add(tachy_source *s, const AVPacket *packet)
{
    struct file *p = file_of(s);
    struct file_cut *c = &p->cut;
    if (!c->on)
        return append(c, c->tail, packet, false);
    struct file_key k = file_key_of(p->st->codecpar, packet);
    const char *odd = oddity(p, packet, &k);
    int err = odd ? TACHY_ERR_INVAL : add_regular(s, packet, &k);
    if (err != TACHY_ERR_INVAL)
        return err;
    err = file_cut_stop(s, odd ? odd : "its times do not tell the order of the pictures");
    return err ? err : append(c, c->tail, packet, false);
}

// TACHY_ERR_EOF: there are no more.
static int read_packet(tachy_source *s)
{
    struct file *p = file_of(s);
    struct file_cut *c = &p->cut;
    if (!c->tail || c->tail->whole)
        return TACHY_ERR_EOF;
    int err = file_read_packet(s, p->packet);
    if (err == TACHY_ERR_EOF) {
        int joined = c->coming ? join(c) : TACHY_OK;
        c->tail->whole = true;
        return joined ? joined : err;
    }
    if (!err) {
        c->divides |= c->nb_read++ >= SEGMENT_MIN && (p->packet->flags & AV_PKT_FLAG_KEY);
        err = add(s, p->packet);
    }
    av_packet_unref(p->packet);
    return err;
}

struct file_segment *file_cut_take(tachy_source *s, int64_t window_end, bool fresh)
{
    struct file *p = file_of(s);
    struct file_cut *c = &p->cut;
    while (!c->head && c->on && c->tail && !c->tail->whole && !c->past_end &&
           c->bytes < WAITING_MAX && c->tail->base + c->tail->nb_times < window_end)
        if (read_packet(s))
            break;
    struct file_segment *g = c->head;
    if (!g || g->base >= window_end || (fresh && !g->fresh))
        return NULL;
    c->head = g->next;
    return g;
}

int file_cut_packet(tachy_source *s, struct file_segment *g, AVPacket *packet, bool *lead)
{
    struct file_cut *c = &file_of(s)->cut;
    while (g->taken == g->nb) {
        if (g->whole)
            return TACHY_ERR_EOF;
        int err = read_packet(s); // it is the last segment: it grows, or turns out whole
        if (err && (err != TACHY_ERR_EOF || !g->whole))
            return err;
    }
    struct file_packet *next = &g->packets[g->taken++];
    c->bytes -= (size_t)next->packet->size;
    *lead = next->lead;
    av_packet_move_ref(packet, next->packet);
    av_packet_free(&next->packet);
    return TACHY_OK;
}

int64_t file_cut_place(struct file_segment *g, int64_t time, int64_t next)
{
    // Pictures in front of the first one that a file gives are none: numbers begin at it.
    bool counts = g->counted || time == AV_NOPTS_VALUE;
    if (!counts && g->begin == INT64_MIN && !g->any && g->nb_times) {
        int early = TACHY_MIN(rank_of(g, time), g->nb_times - 1);
        g->nb_times -= early;
        memmove(g->times, g->times + early, (size_t)g->nb_times * sizeof(g->times[0]));
    }
    g->any |= !counts;
    return TACHY_MAX(g->base, next);
}

int file_cut_open(tachy_source *s)
{
    struct file_cut *c = &file_of(s)->cut;
    c->tail = new_segment();
    c->latest = c->anchor = INT64_MIN;
    c->lanes = 1;
    c->on = c->first = true;
    return c->tail ? TACHY_OK : TACHY_ERR_NOMEM;
}

void file_cut_release(struct file_cut *c, struct file_segment **segment)
{
    if (*segment && *segment == c->tail) { // left early: nothing follows it
        segment_free(c, &c->coming);
        c->tail = NULL;
    }
    segment_free(c, segment);
}

void file_cut_close(struct file_cut *c)
{
    segment_free(c, &c->coming);
    while (c->head) {
        struct file_segment *g = c->head;
        c->head = g->next;
        segment_free(c, &g);
    }
    c->tail = NULL;
}
