#pragma once
#include "engine/engine_options.h"
#include "stage/stage.h"

#include <tachy/engine.h>
#include <tachy/model.h>

// A network as stages of a task: preprocess, model, and after them a stage that decodes what the model says (a mask,
// boxes, classes). A decode stage finds the network with tachy_infer_of() and gets the tensors of each piece with
// tachy_infer_output(); what they mean is on the card. Settings: model.*.

// Reads the setup of a stage's networks, whose tensors are the host's: with --device cuda they run on the GPU if the frames do not
// go there (tachy_task.offloads). As tachy_engine_setup_read(); TACHY_ERR_UNSUPPORTED: several GPUs are asked for.
int tachy_infer_setup(struct tachy_engine_setup *e, const struct tachy_stage *st, const tachy_settings *s);

extern const struct tachy_stage_ops tachy_stage_preprocess, tachy_stage_preprocess_cuda;
extern const struct tachy_stage_ops tachy_stage_model, tachy_stage_model_cuda;

// The smaller network is what mode live may run while frames miss their deadline (tachy_item.small), and what sees the
// parts of a frame that have its shape (tachy_infer.by_shape).
enum { TACHY_INFER_FULL, TACHY_INFER_SMALL, TACHY_INFER_SIZES };

// A network in one of the two sizes. `card` is NULL if there is none of this size; the smaller one may come after the
// start (tachy_stage_ops.degrade), before the first item that needs it.
struct tachy_infer_net {
    const struct tachy_card *card;
    struct tachy_io in[TACHY_MAX_IO], out[TACHY_MAX_IO]; // of one picture, in the model's order; all extents are known
    int nb_in, nb_out;
    int picture; // the input that preprocess writes
    int plate;   // the input that sees the scene without people; -1: there is none
    int hole;    // the input that says which pixels are to be filled; -1: there is none
    int output;  // the output that the card names, or the first; for cards of masks
    int foreground; // the output with the person's own colours; -1: there is none

    // Only for the stages preprocess and model.
    tachy_model *model;    // NULL: the full one's, or there is none
    struct tachy_card own; // the full one's card with other extents
    // Open as long as the task, so that workers of later inputs find the model compiled: for one picture, and for a batch.
    tachy_engine *first, *batch;
    unsigned kept;         // outputs (bits 1 << index) that an item can hold itself
    size_t out_at[TACHY_MAX_IO], out_bytes; // their offsets in that memory, and its size
};

// A state of a recurrent model: its place among the model's inputs and outputs.
struct tachy_infer_state {
    int in, out;
    struct tachy_tensor spec; // rank 0: not known yet
    float start;              // every element of the first one
};

// A network: a task's, in the memory of its preprocess stage, or that of a stage that runs it itself (net.h). Other stages
// read it after that stage's open() and, for the second half, after start().
struct tachy_infer {
    struct tachy_stage *st; // that it is of
    struct tachy_infer_net net[TACHY_INFER_SIZES];
    bool pretends; // a mask: provider null, which needs no model for it
    bool named;    // the settings name the model: no other one is taken
    bool automatic; // they ask for a choice (--model auto)
    bool by_shape; // each region is seen by the network whose input has its shape rather than the other's
    int nb_states; // of a recurrent model; 0: every picture for itself
    int warm_up;   // its runs of a first picture before the one whose results count
    struct tachy_infer_state state[TACHY_MAX_STATES];
    char *model_dir; // copy of the setting
    struct tachy_engine_setup setup;
    // For each device that the task asks for, if the provider runs on devices: CUDA's ordinal, and the stream (a CUstream)
    // that runs are queued on. NULL: it runs on the host.
    int device_id[TACHY_MAX_GPUS];
    void *device_stream[TACHY_MAX_GPUS];

    // The scene without people in the video's format, for cards with a `plate`: of the stage plate, after start().
    const tachy_frame *plate;
    // The part of the frame that each eye is; an item may have its own parts: tachy_infer_region().
    struct tachy_rect region[TACHY_MAX_EYES]; // frame pixels as stored
    int rotation;
    bool flip;
    // Tensors stay with the item. For a recurrent model, so that only its calls are in order.
    bool apart;
};

// The network that the stages before this one run. In open() and later.
struct tachy_infer *tachy_infer_of(const struct tachy_stage *st);

// For mode live under a deadline: makes ready what the steps down need of the task's network; returns those that it heeds from
// then on, bits 1 << enum tachy_degrade. May come again, after start().
unsigned tachy_task_degrades(tachy_task *t);

// The rectangle of the frame that the network sees for this piece, frame pixels as stored.
static inline const struct tachy_rect *tachy_infer_region(const struct tachy_infer *in, const struct tachy_piece *p)
{
    return p->item->nb_parts ? &p->item->part[p->region] : &in->region[p->region];
}

// The model's outputs for a piece.
struct tachy_infer_output {
    int size; // of the network that ran, see tachy_infer.net
    struct tachy_tensor out[TACHY_MAX_IO]; // host memory, of one picture, in the model's order; data NULL: not kept
    int nb_out;
    struct tachy_tensor picture; // what the model saw
    struct tachy_placement at; // position of the region's picture in the model's input
};

// In run() of the stage right after the model, which has the flags of tachy_infer_flags(). The tensors stay as they are
// until run() returns.
void tachy_infer_output(const struct tachy_infer *in, const struct tachy_piece *p, struct tachy_infer_output *o);

// After start(): flags of enum tachy_stage_flag that a stage needs which reads the model's tensors.
static inline unsigned tachy_infer_flags(const struct tachy_infer *in)
{
    return TACHY_STAGE_REGIONS | (in->nb_states && !in->apart ? TACHY_STAGE_ORDERED : 0);
}

// Tensor pixels of the piece to frame pixels, as tachy_preprocess_map().
int tachy_infer_map(const struct tachy_infer *in, const struct tachy_piece *p, int size, double map[6]);

// A region as a separate picture, so that no filter reaches across the seam between two eyes. It shares the frame's
// memory and lives as long as the frame.
tachy_frame tachy_infer_part(const tachy_frame *f, const struct tachy_rect *r);

// True if it may take several pictures per run; tachy_infer_try() tells for certain.
bool tachy_infer_batches(const struct tachy_infer *in);
// Opens an engine for `batch` pictures beside what is open, runs it on black ones and closes it: ms per picture, and by how
// many bytes the resident memory grew with it. Logs nothing. As tachy_engine_open() and tachy_engine_run().
int tachy_infer_try(const struct tachy_infer *in, int batch, double *ms, int64_t *grown);
