#pragma once
#include "media/convert.h"
#include "media/surface.h"
#include "model/card.h"
#include "stage/stage.h"
#include "postprocess/composite.h"
#include "postprocess/mask.h"

#include <tachy/engine.h>
#include <tachy/model.h>
#include <tachy/preprocess.h>
#include <tachy/source.h>

// segment: people cut out of a picture. This header is shared by the files of the task only.

// A state of a recurrent model: its place among the model's inputs and outputs, and its size.
struct segment_state_io {
    int in, out;
    struct tachy_tensor spec; // rank 0: not known yet
    float start;              // every element of the first one
};

// A network that the task runs.
struct segment_net {
    tachy_model *model; // NULL: the full one's, or there is none
    const struct tachy_card *card; // NULL: there is none
    struct tachy_card own;         // where the card is the full one's with other extents
    struct tachy_mask_spec spec;
    tachy_engine *first; // opened with the task; the first worker takes it
};

// The small one is what mode live runs while frames miss their deadline.
enum { SEGMENT_FULL, SEGMENT_SMALL, SEGMENT_SIZES };

struct segment {
    tachy_task *task;
    struct segment_net net[SEGMENT_SIZES];
    char *model_dir; // copy of the setting
    char *provider, *library; // copies of the settings
    char **provider_options;  // ends with NULL
    int engine_threads;
    int build_effort;
    bool strict;
    struct tachy_composite_params composite;
    struct tachy_gpu *gpu; // --device cuda: that of devices[0]; NULL: all steps but the model's are the CPU's
    struct segment_device *devices; // one a GPU, segment_devices.h
    int nb_devices;
    struct tachy_memory *memory; // of the pipeline that the task works in; NULL until a stream starts
    int gpu_ids[TACHY_MAX_GPUS], nb_gpu_ids; // asked for; none: no GPU
    // Of each of gpu_ids, where the provider runs there: whose stream its engines queue their runs on, and the
    // bytes that were free before the first of them was opened.
    struct tachy_gpu *model_gpu[TACHY_MAX_GPUS];
    size_t model_free[TACHY_MAX_GPUS];
    double gpu_fraction, gpu_vram;
    bool on_gpu; // asked for
    bool only_queues; // the workers: the model runs on the GPU too
    bool refine;
    float smooth;     // 0: off
    char *background; // file for mode replace, NULL otherwise
    int nb_states; // of a recurrent model; 0: every picture for itself
    struct segment_state_io state[TACHY_MAX_STATES];

    // Set by start(), read-only while a pipeline runs.
    struct tachy_video_info in, out;
    int rotation;
    bool flip;
    struct tachy_rect region[TACHY_MAX_EYES];
    tachy_frame_pool *pool; // of composited frames; NULL: none are made
    tachy_frame_pool *surfaces; // of those that an encoder reads on a device; NULL: it reads the host's
    struct tachy_surface_spec surface;
};

// What an item carries besides its frames.
struct segment_item {
    struct segment_eye {
        uint8_t *mask, *guide; // width * height; guide NULL where nobody needs it
        struct segment_gpu_eye *gpu; // what the device has of the mask; NULL without
        float *coefficients;   // refine: a then b
        int width, height;
        void *in, *out;        // batches: the model's; NULL without
        struct tachy_placement placement; // the same
    } eye[TACHY_MAX_EYES];
    tachy_frame *background; // mode replace
    tachy_frame *on_gpu;     // copy of a frame of the host's, until it is composited
    struct segment_gpu_item {
        struct segment_gpu_flight *flight; // where its composite is: part of it
        uint64_t part;
        uint32_t counted;        // the eye's count before it
        double pixels;
        // The worker whose stream is behind the frame's writer, and the frame.
        const struct segment_gpu_worker *behind;
        int64_t behind_id;
        // From its preprocess on: who has it in hand, its place among the pictures there, the network.
        struct segment_gpu_worker *at;
        int picture, size;
    } gpu;
    char *json;              // mode json: the line, grown as needed
    size_t json_size;
};

// What an engine reads and writes, in the model's order.
struct segment_tensors {
    struct tachy_tensor in[TACHY_MAX_IO], out[TACHY_MAX_IO];
    int nb_in, nb_out;
    int picture, mask; // which of them
    // Memory of the worker's for each. A stream's state stands in its place while a frame is run.
    void *own_in[TACHY_MAX_IO], *own_out[TACHY_MAX_IO];
};

// A network as a worker runs it.
struct segment_engine {
    const struct segment_net *net;
    tachy_engine *engine; // NULL: the worker has none of this size
    tachy_preprocess *preprocess[TACHY_MAX_EYES]; // one an eye: each keeps its tables
    struct segment_tensors tensors;
};

struct segment_worker {
    int batch; // 0; an object for batches begins with its size
    tachy_task *task;
    struct segment *s;
    struct segment_engine size[SEGMENT_SIZES];
    int last; // size that was run last
    void *state; // of the stream whose item is in work; NULL: it has none
    uint64_t counted_ns; // of the engines' copies between host and device
    tachy_composite *composite;
    // NULL: steps on the CPU. Else the one of the device that the frame in hand is on.
    struct segment_gpu_worker *gpu;
    struct segment_gpu_worker *gpus[TACHY_MAX_GPUS]; // one a device, in the order of `devices`; NULL: not opened yet
    struct segment_device *counted;                    // as busy on that device; NULL: between frames
    struct tachy_placement placement;
    void *scratch; // of refine
    size_t scratch_size;
};

// segment.c: room for a mask of this size, and for what else the settings want beside it.
int segment_ensure_eye(const struct segment *s, struct segment_eye *e, int width, int height);

// After start(): whether the composite reads the decoded picture's pixels.
bool segment_keeps_input(const struct segment *s);

// Whether masks come with the luma of their picture at their size.
static inline bool segment_needs_guide(const struct segment *s) { return s->refine || s->smooth > 0; }

// A region as a picture of its own, so that no filter reaches across the seam between two eyes. It
// shares the frame's memory and lives as long as the frame.
tachy_frame segment_region_of(const tachy_frame *f, const struct tachy_rect *r);
// Where the picture lies in a mask of width x height, from where it lies in the model's input.
struct tachy_placement segment_mask_place(const struct segment_net *net, const struct tachy_placement *p, int width,
                                          int height);

// segment.c: what the stages are made of, see struct tachy_stage_ops.
int segment_open(tachy_task *t, const tachy_settings *set);
void segment_close(tachy_task *t);
int segment_start(tachy_task *t, const struct tachy_video_info *in, struct tachy_video_info *out);
size_t segment_item_bytes(const tachy_task *t);
void segment_item_close(void *item_priv);
int segment_worker_open(tachy_task *t, void **worker);
void segment_worker_close(void *worker);
uint64_t segment_transfer_ns(const void *worker);
int segment_preprocess(void *worker, struct tachy_item *item, int eye);
int segment_model(void *worker, struct tachy_item *item, int eye);
int segment_postprocess(void *worker, struct tachy_item *item, int eye);
// Seconds from the start of the stream.
double segment_time_of(const struct segment *s, const struct tachy_item *item);

// Before each eye's smoothing in a saved state; width 0: it has none.
struct segment_saved_smooth {
    int32_t width, height;
};

// segment_reuse.c: copy, copy_save and copy_load.
int segment_copy(struct tachy_stage *st, struct tachy_item *to, const struct tachy_item *from, int eye);
int segment_copy_save(struct tachy_stage *st, const struct tachy_item *from, void **data, size_t *size);
int segment_copy_load(struct tachy_stage *st, struct tachy_item *to, const void *data, size_t size);

// segment_engine.c
// Opens the network for `batch` pictures a run, with its sizes and constants from the card and the states,
// and holds it against the card. `gpu`: where in gpu_ids a provider that runs on a GPU is to run.
int segment_open_engine(tachy_task *t, const struct segment_net *net, int batch, int gpu, tachy_engine **out);
// Of a recurrent model: the states' shapes, before its engine is opened, and then which inputs and outputs of
// the full network they are.
int segment_find_states(tachy_task *t);
int segment_match_states(tachy_task *t);
// Whether no model runs at all (provider null).
bool segment_pretends(const struct segment *s);

// segment_tensors.c
// Allocates what the engine reads and writes for `batch` pictures into the zeroed `t`, states as
// zeros. To be freed also on failure.
int segment_tensors_open(const struct segment *s, const struct segment_net *net, const tachy_engine *e,
                         int batch, struct segment_tensors *t);
void segment_tensors_free(struct segment_tensors *t);
// Of the size that is asked for.
int segment_preprocess_into(struct segment_worker *w, int size, struct tachy_item *item, int eye,
                            struct tachy_tensor *in, struct tachy_placement *placement);
int segment_postprocess_from(struct segment_worker *w, int size, struct tachy_item *item, int eye,
                             const struct tachy_tensor *out, const struct tachy_placement *placement);

// Room for the eye's mask, which goes to the result, and where the picture lies in the network's output: *pl. The first
// half of segment_postprocess_from().
int segment_place_mask(struct segment_worker *w, int size, struct tachy_item *item, int eye, const struct tachy_tensor *out,
                       const struct tachy_placement *placement, struct tachy_placement *pl);
// Which network an item goes to.
int segment_size_of(const struct segment_worker *w, const struct tachy_item *item);
// The times and numbers of a composited picture are its frame's.
void segment_name_out(const struct segment *s, struct tachy_item *item);

// What the network's output means.
struct tachy_mask_spec segment_mask_spec(const struct segment *s, const struct tachy_card *c);

// segment_small.c: see struct tachy_stage_ops.
unsigned segment_degrade(tachy_task *t);

// segment_batch.c: a model that takes several pictures a run.
int segment_batch_open(tachy_task *t, int most, void **engine);
void segment_batch_close(void *engine);
uint64_t segment_batch_transfer_ns(const void *engine);
uint64_t *segment_batch_counted(void *engine); // how much of that has been counted
// The eye's input of the model in its item, with room for the output; and that output.
int segment_batch_input(const struct segment_worker *w, struct tachy_item *item, int eye, struct tachy_tensor *in);
struct tachy_tensor segment_batch_output(const struct segment_worker *w, const struct tachy_item *item, int eye);
int segment_batch_model(void *engine, const struct tachy_piece pieces[], int n);

// segment_state.c: a recurrent model's states of a stream. begin: the first state's elements into host memory.
void segment_state_begin(void *data, const struct segment_state_io *io);
size_t segment_state_bytes(const struct segment *s); // of one eye's states
int segment_state_open(tachy_task *t, void **state);
void segment_state_close(void *state);
void segment_state_reset(void *state, int eye);
int segment_state_save(const void *state, void **data, size_t *size);
int segment_state_load(void *state, const void *data, size_t size);
// Runs the worker's engine from the eye's state and puts what comes out in its place; of a state on the host.
int segment_state_run(struct segment_worker *w, void *state, int eye);
// Where it lies on a device: that part; NULL: it is the host's.
struct segment_gpu_state;
struct segment_gpu_state *segment_state_gpu(void *state);

// segment_options.c: reads the settings into `s`.
int segment_read_settings(tachy_task *t, struct segment *s, const tachy_settings *settings);

// segment_background.c: the pictures behind the person in mode replace. An image serves every
// frame; a video is read along with the stream by time and starts again at its end.
struct segment_background;
int segment_background_open(struct segment_background **out, const struct segment *s,
                            const struct tachy_log *log);
// The background of a frame with this time (seconds from the start, rising), of the stream's
// format and size. The caller gets a reference.
int segment_background_at(struct segment_background *b, double time_s, tachy_frame **out);
void segment_background_close(struct segment_background **b);
