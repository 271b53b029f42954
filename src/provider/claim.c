#include "base/base.h"
#include "base/index.h"
#include "base/mix.h"
#include "provider/provider.h"

#include <stdlib.h>

// Chooses the nodes that become plans. A node's level counts how often a path to it alternates between nodes that we
// run and nodes that we do not. So our nodes that share a level are convex: a path that leaves them and returns would
// have raised the level.
struct claims {
    const struct provider *p;
    const struct provider_options *o;
    const OrtNode **nodes;
    size_t nb;
    const char **why; // a node is not ours; NULL: it is
    bool *ours;
    bool *heavy; // worth a plan: convolutions and matrix products
    int64_t *saved; // elements of a pass over a tensor that a plan does on the way
    bool *folded; // became constants when they were read
    struct quantised *quantised;
    bool *any; // makes whole numbers that float32 may not hold
    int *pulled;  // of what is folded: the level of those that use it, or one of enum pulled
    int *level, levels;
    int *from;         // producers of a node's inputs, followed by those of the next node
    size_t *from_end;  // of each node in `from`
    struct part *part; // of each level
    size_t *by_level;  // our nodes by level
    int *plan, plans; // number of the plan that has the node, -1: none
};

// Our nodes of one level, which are compiled together or left.
struct part {
    int level;
    size_t begin, nb; // in by_level
    bool heavy;
    int64_t saved;
};

// Relation of a node to quantised numbers.
struct quantised {
    bool makes, takes; // QuantizeLinear, DequantizeLinear
    bool product;      // ONNX Runtime makes int8 arithmetic of it if the numbers around it are quantised
    bool to_float;     // also if the result is not quantised
    int from, computed; // inputs of DequantizeLinear, and those of them that are no constants
    bool to;            // the result goes to QuantizeLinear
};

enum pulled { PULLED_NEVER = -1, PULLED_APART = -2 };

// Raises the level of node `i` above that of node `from`, whose output it uses.
static void follow(struct claims *c, size_t i, size_t from)
{
    c->level[i] = TACHY_MAX(c->level[i], c->level[from] + (c->ours[from] != c->ours[i]));
}

// A constant depends on nothing, so its producer may move to its user, if that is a single node of ours.
static void pull(struct claims *c, size_t i, size_t from)
{
    if (!c->folded[from])
        return;
    bool fits = c->ours[i] && (c->pulled[from] == PULLED_NEVER || c->pulled[from] == c->level[i]);
    c->pulled[from] = fits ? c->level[i] : PULLED_APART;
}

static void settle_folded(struct claims *c)
{
    for (size_t i = 0; i < c->nb; i++) {
        if (!c->folded[i])
            continue;
        if (c->pulled[i] >= 0) {
            c->level[i] = c->pulled[i];
            continue;
        }
        c->ours[i] = false;
        c->why[i] = "its constant is used in several places";
    }
}

static bool is_node(const void *claims, const void *node, int i)
{
    return ((const struct claims *)claims)->nodes[i] == node;
}

static uint64_t hash_of(const OrtNode *node) { return tachy_mix(0, &node, sizeof(node)); }

// Adds the nodes in front of node `i` that make its inputs; those of the bodies of loops and branches count,
// too. `room`: of c->from. False: out of memory.
static bool add_makers(struct claims *c, size_t i, const struct tachy_index *index, size_t *room)
{
    struct reader r = {.api = c->p->api};
    const OrtApi *api = c->p->api;
    size_t explicit = 0, implicit = 0, at = i ? c->from_end[i - 1] : 0;
    if (!reader_ok(&r, api->Node_GetNumInputs(c->nodes[i], &explicit)) ||
        !reader_ok(&r, api->Node_GetNumImplicitInputs(c->nodes[i], &implicit)))
        return false;
    const OrtValueInfo **in = calloc(explicit + implicit + 1, sizeof(OrtValueInfo *));
    bool ok = in && reader_ok(&r, api->Node_GetInputs(c->nodes[i], in, explicit)) &&
              reader_ok(&r, api->Node_GetImplicitInputs(c->nodes[i], in + explicit, implicit));
    if (ok && at + explicit + implicit > *room) {
        size_t more = 2 * (at + explicit + implicit);
        int *from = realloc(c->from, more * sizeof(*from));
        ok = from;
        c->from = from ? from : c->from;
        *room = from ? more : *room;
    }
    for (size_t k = 0; ok && k < explicit + implicit; k++) {
        const OrtNode *by = NULL;
        size_t port;
        int from = -1;
        if (in[k] && reader_ok(&r, api->ValueInfo_GetValueProducer(in[k], &by, &port)) && by)
            from = tachy_index_find(index, hash_of(by), is_node, c, by);
        if (from >= 0 && from < (int)i)
            c->from[at++] = from;
    }
    c->from_end[i] = at;
    free(in);
    return ok;
}

// Finds the producers of each node's inputs. TACHY_ERR_NOMEM.
static int find_makers(struct claims *c)
{
    struct tachy_index index = {0};
    size_t room = 0;
    int err = TACHY_OK;
    for (size_t i = 0; i < c->nb && err == TACHY_OK; i++)
        err = tachy_index_add(&index, hash_of(c->nodes[i]), (int)i);
    for (size_t i = 0; i < c->nb && err == TACHY_OK; i++)
        err = add_makers(c, i, &index, &room) ? TACHY_OK : TACHY_ERR_NOMEM;
    tachy_index_free(&index);
    return err;
}

// Calls for every node that makes an input of node `i`.
static void visit(struct claims *c, size_t i, void (*fn)(struct claims *c, size_t i, size_t from))
{
    for (size_t k = i ? c->from_end[i - 1] : 0; k < c->from_end[i]; k++)
        fn(c, i, (size_t)c->from[k]);
}

static void visit_all(struct claims *c, void (*fn)(struct claims *c, size_t i, size_t from))
{
    for (size_t i = 0; i < c->nb; i++)
        visit(c, i, fn);
}

static bool is_heavy(const char *op)
{
    static const char *const names[] = {"Conv", "ConvTranspose", "FusedConv", "FusedMatMul", "Gemm", "MatMul"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++)
        if (!strcmp(op, names[i]))
            return true;
    return false;
}

static struct quantised quantised_of(const char *op)
{
    bool product = !strcmp(op, "MatMul") || !strcmp(op, "Gemm");
    return (struct quantised){.makes = !strcmp(op, "QuantizeLinear"), .takes = !strcmp(op, "DequantizeLinear"),
                              .product = product || !strcmp(op, "Conv"), .to_float = product};
}

static void see_quantised(struct claims *c, size_t i, size_t from)
{
    c->quantised[i].from += c->quantised[from].takes;
    c->quantised[i].computed += c->quantised[from].takes && !c->folded[from];
    c->quantised[from].to |= c->quantised[i].makes;
}

// ONNX Runtime's int8 arithmetic is up to four times as fast as ours in float32 (docs/provider.md).
static bool is_int8(const struct claims *c, size_t i)
{
    const struct quantised *q = &c->quantised[i];
    return q->product && q->from >= 2 && q->computed && (q->to || q->to_float);
}

static void leave(struct claims *c, size_t i, const char *why)
{
    if (c->ours[i])
        c->why[i] = why;
    c->ours[i] = c->folded[i] = c->heavy[i] = false;
}

// It is made one node with those that quantise its inputs and its result, so these stay with it.
static void leave_beside(struct claims *c, size_t i, size_t from)
{
    static const char why[] = "it belongs to a layer that ONNX Runtime has int8 arithmetic for";
    if (is_int8(c, i) && c->quantised[from].takes)
        leave(c, from, why);
    if (is_int8(c, from) && c->quantised[i].makes)
        leave(c, i, why);
}

// Layers between quantised numbers are left.
static void leave_int8(struct claims *c)
{
    visit_all(c, see_quantised);
    visit_all(c, leave_beside);
    for (size_t i = 0; i < c->nb; i++)
        if (is_int8(c, i))
            leave(c, i, "ONNX Runtime has int8 arithmetic for it, which is faster; claim_qdq=1 takes it all the same");
}

// Also called if the node is left for another reason, for the sake of its readers.
static void leave_wrong_shape(struct claims *c, size_t i, size_t from)
{
    if (c->why[from] != reader_wrong_shape)
        return;
    leave(c, i, reader_wrong_shape);
    c->why[i] = reader_wrong_shape;
}

static void leave_any(struct claims *c, size_t i, size_t from)
{
    if (c->any[from] && !c->ours[i])
        leave(c, from, "whole numbers that may be too large and that another node reads");
}

static bool is_output(const struct claims *c, size_t i)
{
    struct reader r = {.api = c->p->api};
    const OrtValueInfo *out[READER_OUTPUTS] = {0};
    size_t nb = 0;
    bool is = true;
    return !reader_ok(&r, r.api->Node_GetNumOutputs(c->nodes[i], &nb)) || !nb || nb > READER_OUTPUTS ||
           !reader_ok(&r, r.api->Node_GetOutputs(c->nodes[i], out, nb)) ||
           !reader_ok(&r, r.api->ValueInfo_IsGraphOutput(out[0], &is)) || is;
}

// Such numbers stay inside of a plan.
static void keep_any_inside(struct claims *c)
{
    for (size_t i = c->nb; i-- > 0;) {
        if (c->any[i] && c->ours[i] && is_output(c, i))
            leave(c, i, "an output of whole numbers that may be too large");
        visit(c, i, leave_any);
    }
}

// True if ONNX Runtime does it without an extra pass over the tensor: the work itself, operators that it fuses into a
// convolution, and those that only rename.
static bool costs_nothing_more(const char *op)
{
    static const char *const names[] = {"Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid",
                                        "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++)
        if (!strcmp(op, names[i]))
            return true;
    return is_heavy(op);
}

static int read_all(struct claims *c, const struct tachy_log *log)
{
    struct reader r;
    int err = reader_open(&r, c->p->api, c->o->backend, log);
    for (size_t i = 0; err == TACHY_OK && i < c->nb; i++) {
        const struct tachy_node *last = r.g->last;
        const char *why = reader_add(&r, c->nodes[i]), *name = "", *op = "";
        reader_ok(&r, c->p->api->Node_GetName(c->nodes[i], &name));
        reader_ok(&r, c->p->api->Node_GetOperatorType(c->nodes[i], &op));
        c->why[i] = why;
        c->plan[i] = -1;
        c->ours[i] = !why;
        c->folded[i] = !why && r.g->last == last;
        c->pulled[i] = PULLED_NEVER;
        c->heavy[i] = !why && is_heavy(op);
        c->quantised[i] = quantised_of(op);
        c->any[i] = !why && r.g->last && r.g->last->out->dtype != TACHY_F32 && r.g->last->out->most == TACHY_PLAN_ANY;
        if (!why && r.g->last && !costs_nothing_more(op))
            c->saved[i] = tachy_value_elements(r.g->last->out);
        if (why)
            tachy_msg(log, TACHY_LOG_VERBOSE, "provider: %s %s is left to ONNX Runtime: %s", op, name, why);
    }
    reader_close(&r);
    return err;
}

static int find_parts(struct claims *c)
{
    struct part *part = c->part = calloc((size_t)c->levels + 1, sizeof(*part));
    if (!part)
        return TACHY_ERR_NOMEM;
    for (size_t i = 0; i < c->nb; i++)
        part[c->level[i]].nb += c->ours[i];
    for (int l = 0; l < c->levels; l++) {
        part[l].level = l;
        part[l + 1].begin = part[l].begin + part[l].nb;
        part[l].nb = 0;
    }
    for (size_t i = 0; i < c->nb; i++) {
        struct part *p = &part[c->level[i]];
        if (!c->ours[i])
            continue;
        c->by_level[p->begin + p->nb++] = i;
        p->heavy = p->heavy || c->heavy[i];
        p->saved += c->saved[i];
    }
    return TACHY_OK;
}

// Nothing of a network without quantised numbers is taken if it is to run in them. A graph inside of a node has those
// around it.
static void leave_unquantised(struct claims *c, const struct tachy_log *log)
{
    static const char why[] = "precision int8 needs QuantizeLinear and DequantizeLinear around the layers";
    for (size_t i = 0; i < c->nb; i++)
        if (c->quantised[i].makes)
            return;
    if (!c->o->context) // whose program has it from the nodes
        tachy_msg(log, TACHY_LOG_ERR, "provider: %s", why);
    for (size_t i = 0; i < c->nb; i++)
        leave(c, i, why);
}

// Levels and parts, after all has been left that is to be left for its own sake. TACHY_ERR_NOMEM.
static int find_levels(struct claims *c, bool nested, const struct tachy_log *log)
{
    bool qdq = c->o->claim_qdq || c->o->backend->queue; // ONNX Runtime's int8 arithmetic is a processor's
    int err = find_makers(c);
    if (err < 0)
        return err;
    if (c->o->plan.precision == TACHY_PLAN_INT8 && !nested)
        leave_unquantised(c, log);
    visit_all(c, leave_wrong_shape);
    if (!qdq)
        leave_int8(c);
    keep_any_inside(c);
    visit_all(c, follow);
    visit_all(c, pull);
    settle_folded(c);
    for (size_t i = 0; i < c->nb; i++)
        c->levels = TACHY_MAX(c->levels, c->level[i] + 1);
    return find_parts(c);
}

// Inputs and outputs of a view of the graph. Free both.
static bool ends_of(const struct provider *p, const OrtGraph *view, const OrtValueInfo ***in, size_t *nb_in,
                    const OrtValueInfo ***out, size_t *nb_out)
{
    struct reader r = {.api = p->api};
    if (!reader_ok(&r, p->api->Graph_GetNumInputs(view, nb_in)) ||
        !reader_ok(&r, p->api->Graph_GetNumOutputs(view, nb_out)))
        return false;
    *in = calloc(*nb_in + 1, sizeof(OrtValueInfo *));
    *out = calloc(*nb_out + 1, sizeof(OrtValueInfo *));
    return *in && *out && reader_ok(&r, p->api->Graph_GetInputs(view, *in, *nb_in)) &&
           reader_ok(&r, p->api->Graph_GetOutputs(view, *out, *nb_out));
}

// Elements of pictures that come in or go out: their channels are put last and back.
static int64_t turned(const struct provider_tensor *t, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        if (t[i].rank == 4 && t[i].shape[1] > 1 && t[i].shape[2] * t[i].shape[3] > 1)
            sum += t[i].shape[0] * t[i].shape[1] * t[i].shape[2] * t[i].shape[3];
    return sum;
}

// True if the nodes really become a plan: problems that only show during compilation are found here, while ONNX Runtime
// can still take the nodes. `border`: elements that are transposed at the plan's ends.
static bool compiles(const struct claims *c, const OrtGraph *graph, const OrtNode **nodes, size_t nb,
                     int64_t *border, const struct tachy_log *log)
{
    struct reader r = {.api = c->p->api};
    OrtGraph *view = NULL;
    const OrtValueInfo **in = NULL, **out = NULL;
    size_t nb_in, nb_out;
    struct provider_plan *plan = NULL;
    struct provider_options trial = *c->o;
    trial.plan.trial = true;
    struct tachy_log quiet = log ? *log : (struct tachy_log){0};
    bool ok = reader_ok(&r, c->p->api->Graph_GetGraphView(graph, nodes, nb, &view)) &&
              ends_of(c->p, view, &in, &nb_in, &out, &nb_out) &&
              provider_plan_open(&plan, c->p, &trial, view, in, nb_in, out, nb_out, &quiet) == TACHY_OK;
    *border = ok ? turned(plan->in, plan->nb_in) + turned(plan->out, plan->nb_out) : 0;
    provider_plan_close(&plan);
    free(in);
    free(out);
    if (view)
        c->p->api->ReleaseGraph(view);
    return ok;
}

// The outcome for a part. Nothing of ours is left in it if it is not claimed.
static void settle(struct claims *c, struct part *part, const char *why)
{
    for (size_t k = part->begin; k < part->begin + part->nb; k++) {
        c->why[c->by_level[k]] = why;
        c->plan[c->by_level[k]] = why ? -1 : c->plans;
    }
    c->plans += !why;
    part->nb = why ? 0 : part->nb;
}

// A part of a network pays off if the passes that it saves outweigh its ends: docs/provider.md has the measurements.
// Below FEW elements both drown in the time of a call.
enum { FEW = 1 << 12 };
static bool pays(int64_t saved, int64_t border) { return border <= FEW || saved >= border; }

static int saves_more(const void *a, const void *b)
{
    const struct part *x = *(struct part *const *)a, *y = *(struct part *const *)b;
    if (x->saved != y->saved)
        return x->saved > y->saved ? -1 : 1;
    return x->level - y->level;
}

// Leaves parts that are not worth a plan. ONNX Runtime takes about 4 us for each plan and each node of the
// graph when it makes a session, so of very many only those that save the most are kept. TACHY_ERR_NOMEM.
static int leave_parts(struct claims *c)
{
    enum { PLANS_TIMES_NODES = 1 << 17 };
    struct part **kept = calloc((size_t)c->levels + 1, sizeof(*kept));
    size_t nb = 0, most = TACHY_MAX(PLANS_TIMES_NODES / TACHY_MAX(c->nb, 1), 1);
    if (!kept)
        return TACHY_ERR_NOMEM;
    for (int l = 0; l < c->levels; l++) {
        struct part *p = &c->part[l];
        if (p->nb && !p->heavy && p->nb != c->nb)
            settle(c, p, "no convolution or matrix product beside it, so it is not worth a plan");
        if (p->nb)
            kept[nb++] = p;
    }
    if (nb > most)
        qsort(kept, nb, sizeof(*kept), saves_more);
    for (size_t i = most; i < nb; i++)
        settle(c, kept[i], "the network has so many parts that a session would take long to make, and others save more");
    free(kept);
    return TACHY_OK;
}

static OrtStatus *claim_part(struct claims *c, const OrtGraph *graph, struct part *part,
                             OrtEpGraphSupportInfo *to, const struct tachy_log *log)
{
    OrtNodeFusionOptions options = {.ort_version_supported = ORT_API_VERSION,
                                    .drop_constant_initializers = true};
    const OrtNode **set = calloc(part->nb, sizeof(OrtNode *));
    int64_t border;
    if (!set)
        return c->p->api->CreateStatus(ORT_FAIL, "tachy: no memory");
    for (size_t k = 0; k < part->nb; k++)
        set[k] = c->nodes[c->by_level[part->begin + k]];
    OrtStatus *s = NULL;
    if (!compiles(c, graph, set, part->nb, &border, log)) {
        settle(c, part, "it could not be compiled with its neighbours");
    } else if (part->nb != c->nb && !pays(part->saved, border)) {
        settle(c, part, "turning the ends of its part of the network around costs more than the part saves");
    } else {
        settle(c, part, NULL);
        s = c->p->ep_api->EpGraphSupportInfo_AddNodesToFuse(to, set, part->nb, &options);
    }
    free(set);
    return s;
}

// Tells the function table who runs which node. Out of memory: nothing is told.
static void record(const struct claims *c)
{
    struct reader r = {.api = c->p->api};
    struct tachy_ep_node *nodes = c->o->context ? calloc(c->nb + 1, sizeof(*nodes)) : NULL;
    for (size_t i = 0; nodes && i < c->nb; i++) {
        const char *name = "", *op = "";
        reader_ok(&r, c->p->api->Node_GetName(c->nodes[i], &name));
        reader_ok(&r, c->p->api->Node_GetOperatorType(c->nodes[i], &op));
        nodes[i] = (struct tachy_ep_node){tachy_asprintf("%s", op), tachy_asprintf("%s", name), c->why[i],
                                          c->plan[i]};
    }
    if (nodes)
        provider_record(c->o->context, nodes, (int)c->nb);
}

// Warns a program that would run without us and not know why: a plan has fixed shapes. Programs that use the function table ask
// for the reason of each node.
static void warn_of_free(const struct claims *c, const OrtGraph *graph, const struct tachy_log *log)
{
    struct reader r = {.api = c->p->api};
    const char *input, *dimension;
    size_t left = 0;
    for (size_t i = 0; i < c->nb; i++)
        left += c->plan[i] < 0;
    if (c->o->context || 2 * left <= c->nb || !reader_free_dimension(&r, graph, &input, &dimension))
        return;
    if (*dimension)
        tachy_msg(log, TACHY_LOG_WARN, "provider: %zu of %zu nodes are left to ONNX Runtime: dimension `%s` of input `%s` is free; "
                  "fix it by add_free_dimension_override_by_name(\"%s\", N) of the session's options", left, c->nb,
                  dimension, input, dimension);
    else
        tachy_msg(log, TACHY_LOG_WARN, "provider: %zu of %zu nodes are left to ONNX Runtime: input `%s` has a dimension without "
                  "size and name; write its size into the model", left, c->nb, input);
}

// A graph inside of a node of another one.
static bool is_nested(const struct provider *p, const OrtGraph *graph)
{
    struct reader r = {.api = p->api};
    const OrtNode *parent = NULL;
    return reader_ok(&r, p->api->Graph_GetParentNode(graph, &parent)) && parent;
}

OrtStatus *provider_claim(const struct provider *p, const struct provider_options *o, const OrtGraph *graph,
                          OrtEpGraphSupportInfo *to, bool *whole, const struct tachy_log *log)
{
    struct claims c = {.p = p, .o = o};
    OrtStatus *s = NULL;
    bool nested = is_nested(p, graph);
    c.nodes = provider_nodes(p, graph, &c.nb);
    c.ours = calloc(c.nb + 1, sizeof(*c.ours));
    c.heavy = calloc(c.nb + 1, sizeof(*c.heavy));
    c.saved = calloc(c.nb + 1, sizeof(*c.saved));
    c.level = calloc(c.nb + 1, sizeof(*c.level));
    c.folded = calloc(c.nb + 1, sizeof(*c.folded));
    c.pulled = calloc(c.nb + 1, sizeof(*c.pulled));
    c.quantised = calloc(c.nb + 1, sizeof(*c.quantised));
    c.any = calloc(c.nb + 1, sizeof(*c.any));
    c.plan = calloc(c.nb + 1, sizeof(*c.plan));
    c.from_end = calloc(c.nb + 1, sizeof(*c.from_end));
    c.by_level = calloc(c.nb + 1, sizeof(*c.by_level));
    c.why = calloc(c.nb + 1, sizeof(*c.why));
    if (!c.nodes || !c.ours || !c.heavy || !c.saved || !c.level || !c.folded || !c.pulled || !c.plan || !c.why ||
        !c.quantised || !c.any || !c.from_end || !c.by_level || read_all(&c, log) < 0 ||
        find_levels(&c, nested, log) < 0 || leave_parts(&c) < 0)
        s = p->api->CreateStatus(ORT_FAIL, "tachy: the graph could not be read");
    bool all = c.levels == 1 && !nested;
    for (size_t i = 0; i < c.nb && all; i++)
        all = c.ours[i];
    for (int l = 0; !s && l < c.levels && (all || !provider_wants(o->context, TACHY_EP_WHOLE)); l++)
        if (c.part[l].nb)
            s = claim_part(&c, graph, &c.part[l], to, log);
    *whole = !s && all;
    for (size_t i = 0; i < c.nb && *whole; i++)
        *whole = c.plan[i] == 0;
    if (!s && !nested) {
        record(&c);
        warn_of_free(&c, graph, log);
    }
    free(c.nodes);
    free(c.ours);
    free(c.heavy);
    free(c.saved);
    free(c.level);
    free(c.folded);
    free(c.pulled);
    free(c.quantised);
    free(c.any);
    free(c.plan);
    free(c.why);
    free(c.from);
    free(c.from_end);
    free(c.by_level);
    free(c.part);
    return s;
}
