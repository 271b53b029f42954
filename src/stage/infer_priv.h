#pragma once
#include "stage/infer.h"

// Shared by the files of infer.

// The tensors of an engine, in the model's order.
struct infer_tensors {
    struct tachy_tensor in[TACHY_MAX_IO], out[TACHY_MAX_IO];
    int nb_in, nb_out;
    // Memory of the worker's for each. A stream's state, or what an item holds, stands in its place while a frame is run.
    void *own_in[TACHY_MAX_IO], *own_out[TACHY_MAX_IO];
};

// A network as a worker runs it.
struct infer_engine {
    const struct tachy_infer_net *net;
    tachy_engine *engine; // NULL: the worker has none of this size
    tachy_preprocess *preprocess[TACHY_MAX_PARTS]; // one per region: each keeps its tables
    struct infer_tensors tensors;
    int plated; // region whose plate is in the tensor for that, from 1; 0: none yet
};

struct infer_worker {
    int batch; // pictures of a call; 0: the engines take one
    struct tachy_infer *infer;
    struct infer_engine size[TACHY_INFER_SIZES]; // of a batch the full one, without preprocess; `by_shape` the smaller one for one
    uint64_t counted_ns; // of the engines' copies between host and device
};

// The part of an item that holds a region from preprocess to the stage after the model.
struct infer_region {
    const struct infer_engine *by; // the worker's whose tensors are the region's; NULL: `in` and `out` are
    void *in, *out;                // the item's own, as net.out_at says; NULL before they are needed
    int size;
    struct tachy_placement placement;
};

struct infer_item {
    struct infer_region region[TACHY_MAX_PARTS];
};

static inline struct infer_region *infer_region_of(const struct tachy_infer *in, const struct tachy_piece *p)
{
    return &((struct infer_item *)tachy_stage_item(in->st, p->item))->region[p->region];
}

// ---- infer.c: a network, of the stage preprocess or of a stage with its own networks (net.h)

// The settings of section "model" and the model, then its first engine with what follows from it. `st`: the stage whose
// network it is. `log`: of what is wrong with the model. The zeroed `in` is to be freed also on failure.
int infer_open_model(struct tachy_infer *in, struct tachy_stage *st, const char *name, const char *card,
                     const tachy_settings *set, const struct tachy_log *log);
// Opens the model that the settings name.
int infer_open_named(struct tachy_infer *in, struct tachy_stage *st, const tachy_settings *set);
int infer_open_first(struct tachy_infer *in);
void infer_free(struct tachy_infer *in);
// The network with everything that a worker needs to run it on this many regions. Must be closed also on failure.
int infer_engine_open(struct infer_engine *e, const struct tachy_infer *in, struct tachy_infer_net *net,
                      const struct tachy_preprocess_params *pp, int regions);
void infer_engine_close(struct infer_engine *e);

// ---- infer.c: what both forms of a stage have; see struct tachy_stage_ops

// preprocess: the network that a stage before has opened (tachy_task.opened), else the one that the settings name.
int infer_open_whole(struct tachy_stage *st, const tachy_settings *set);
void infer_describe(const struct tachy_infer *in);
int infer_start(struct tachy_stage *st, struct tachy_video_info *video); // in->apart is set
void infer_item_close(void *item);

int infer_model_open(struct tachy_stage *st, const tachy_settings *set);
// `batch` as in worker_open(). To be closed also on failure.
int infer_worker_open(struct tachy_infer *in, int batch, struct infer_worker *w);
void infer_worker_close(struct infer_worker *w);
// A batch's worker serves the streams of several tasks, of which the one that opened it may have gone: from now on this one's.
void infer_serve(struct infer_worker *w, struct tachy_infer *in);
// Runs the pieces of a batch, whose tensors are their items'.
void infer_run_batch(struct infer_worker *w, const struct tachy_piece pieces[], int n, int err[]);
// Counts the copies between host and device that the worker's engines have made since the last call.
void infer_count_transfer(struct tachy_stage *st, struct infer_worker *w);
// `tensors` of struct tachy_stage_ops, of a model that runs on the host.
int infer_model_tensors(struct tachy_stage *st, void *worker, const struct tachy_piece *p, struct tachy_stage_tensors *t);

// The card's preprocess, for regions that have been cropped already.
struct tachy_preprocess_params infer_params(const struct tachy_infer *in, const struct tachy_card *card);
// The tensor that preprocess writes for a piece: in the item's own memory if another worker calls the model.
int infer_input(struct infer_worker *w, const struct tachy_piece *p, struct tachy_tensor *in);

// ---- infer_engine.c

// Opens the network for `batch` pictures per run, with its sizes and constants from the card and the states, and checks
// it against the card. `device`: index of the task's device for a provider that runs on devices.
int infer_open_engine(const struct tachy_infer *in, const struct tachy_infer_net *net, int batch, int device,
                      tachy_engine **out);
// True if the model takes pictures of its card's size; logs nothing. For a network that got another card. `runs`: a run is
// tried as well.
bool infer_takes_size(struct tachy_infer *in, const struct tachy_infer_net *net, bool runs);
// For a recurrent model: finds the states' shapes, before its engine is opened, and then which inputs and outputs of
// the full network they are.
int infer_find_states(struct tachy_infer *in);
int infer_match_states(struct tachy_infer *in);

// ---- infer_tensors.c

// From net->first: inputs and outputs, with what the model leaves open of them. To be freed also on failure.
int infer_net_describe(const struct tachy_infer *in, struct tachy_infer_net *net);
void infer_net_free(struct tachy_infer_net *net);
// Allocates what an engine reads and writes for `batch` pictures into the zeroed `t`, states as
// zeros. To be freed also on failure.
int infer_tensors_open(const struct tachy_infer *in, const struct tachy_infer_net *net, const tachy_engine *e, int batch,
                       struct infer_tensors *t);
void infer_tensors_free(struct infer_tensors *t);
// The engine's tensors become those of the region: its own ones, or the worker's.
void infer_tensors_bind(struct infer_engine *e, const struct infer_region *r);
// Memory in the item for the region's tensors, of whichever network runs.
int infer_region_ensure(const struct tachy_infer *in, struct infer_region *r);

// The card with other extents of the picture; its mask keeps its share of them.
void infer_resize_card(struct tachy_infer_net *net, const struct tachy_card *from, int width, int height);
// With --fast-mode, after the model was opened: the smaller network that its card names takes its place, or it gets smaller
// pictures if it takes them. What cannot be had is told, and no error. TACHY_ERR_NOMEM.
int infer_choose_fast(struct tachy_infer *in, const tachy_settings *set);
// After start(): what has the shape of the smaller network's input is seen by that from now on, if it can be opened.
void infer_open_by_shape(struct tachy_infer *in);

// ---- infer_state.c: a recurrent model's states of a stream, on the host; see struct tachy_stage_ops

// The first state's elements into host memory.
void infer_state_begin(void *data, const struct tachy_infer_state *io);
size_t infer_state_bytes(const struct tachy_infer *in); // of one region's states and its warm_up, as saved
int infer_state_open(struct tachy_stage *st, void **state);
void infer_state_close(void *state);
void infer_state_reset(void *state, int region);
int infer_state_save(const void *state, void **data, size_t *size);
int infer_state_load(void *state, const void *data, size_t size);
// Runs the engine, whose tensors are bound, from the region's state and puts what comes out in its place.
int infer_state_run(struct infer_engine *e, void *state, int region);
