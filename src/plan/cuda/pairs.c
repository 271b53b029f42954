#include "plan/cuda/parts.h"

// Two consecutive convolutions that the kernel `pair` runs together, the second one of 1x1 taps: the value between them is written for
// other readers, but not read again. Since the first one's inputs are read while the second's output is written, they are kept until then
// (plan_place_rules.beside).

static bool is_conv(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    return n->op == TACHY_OP_CONV && n->out->rank == 4 && n->out->nhwc && n->in[0]->nhwc && tachy_is_half(n->out->dtype) &&
           n->in[0]->dtype == n->out->dtype && !n->in[0]->data && n->in[1]->data && !cuda_input(n, 4) && a->conv.groups == 1 && a->conv.planes <= 1;
}

bool cuda_is_tap(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    return is_conv(n) && a->conv.kernel[0] * a->conv.kernel[1] * a->conv.stride[0] * a->conv.stride[1] == 1 &&
           !(a->conv.pad[0] | a->conv.pad[1] | a->conv.pad[2] | a->conv.pad[3]);
}

static bool is_width(int64_t channels) { return channels == 64 || channels == 128 || channels == 256; }

static bool fits(const struct tachy_node *n)
{
    const struct tachy_node *next = n->next;
    struct cuda_mlp m;
    if (!next || !is_conv(n) || !cuda_is_tap(next) || next->in[0] != n->out || cuda_input(next, 3) || cuda_is_mlp(next, &m))
        return false;
    bool wide = cuda_is_tap(n) && !(n->attr.act_before_add && cuda_input(n, 3)) && is_width(n->in[0]->shape[1]) && n->out->shape[1] % 64 == 0 &&
                is_width(next->out->shape[1]);
    bool few = n->in[0]->shape[1] <= TACHY_NN_SMALL && TACHY_MAX(n->out->shape[1], next->out->shape[1]) <= TACHY_NN_SMALL_PAIR &&
               n->attr.conv.dilation[0] * n->attr.conv.dilation[1] == 1;
    return wide || few;
}

bool cuda_pairs(const struct tachy_node *n)
{
    int in_front = 0; // of several in a row each second one begins a pair
    if (!fits(n))
        return false;
    while (n->prev && fits(n->prev)) {
        n = n->prev;
        in_front++;
    }
    return in_front % 2 == 0;
}
