#include "plan/graph.h"

#include <stdio.h>
#include <stdlib.h>

static void print_shape(FILE *f, const struct tachy_value *v)
{
    static const char *const types[] = {"?", "f32", "f16", "u8", "i8", "i32", "i64", "bf16"};
    fputs(types[TACHY_CLAMP((int)v->dtype, 0, 7)], f);
    fputc('[', f);
    for (int i = 0; i < v->rank; i++)
        fprintf(f, "%s%lld", i ? "x" : "", (long long)v->shape[i]);
    fputs(v->nhwc ? " nhwc]" : "]", f);
}

static void print_input(FILE *f, const struct tachy_value *v)
{
    if (!v) {
        fputc('-', f);
    } else if (v->data) {
        fputs(v->name ? v->name : "const", f);
        print_shape(f, v);
    } else {
        fprintf(f, "%%%d", v->id);
    }
}

static void print_act(FILE *f, const struct tachy_plan_act_of *a)
{
    if (!a->act)
        return;
    fprintf(f, " %s", tachy_plan_act_name(a->act));
    if (a->act == TACHY_PLAN_CLIP || a->act == TACHY_PLAN_HSIGMOID || a->act == TACHY_PLAN_QUANTIZE ||
        a->act == TACHY_PLAN_LEVELS)
        fprintf(f, "(%g, %g)", (double)a->a, (double)a->b);
    else if (a->act == TACHY_PLAN_LEAKY)
        fprintf(f, "(%g)", (double)a->a);
}

static void print_list(FILE *f, const char *name, const int *v, int n, int unless)
{
    bool plain = true;
    for (int i = 0; i < n; i++)
        plain = plain && v[i] == unless;
    if (plain)
        return;
    fprintf(f, " %s %d", name, v[0]);
    for (int i = 1; i < n; i++)
        fprintf(f, ",%d", v[i]);
}

static void print_conv(FILE *f, const struct tachy_plan_attr *a)
{
    print_list(f, "kernel", a->conv.kernel, 2, 1);
    print_list(f, "stride", a->conv.stride, 2, 1);
    print_list(f, "dilation", a->conv.dilation, 2, 1);
    print_list(f, "pad", a->conv.pad, 4, 0);
    print_list(f, "groups", &a->conv.groups, 1, 1);
    print_list(f, "out_pad", a->conv.out_pad, 2, 0);
    print_list(f, "planes", &a->conv.planes, 1, 0);
    print_list(f, "before", &a->conv.before, 1, 0);
}

static void print_longs(FILE *f, const char *name, const int64_t *v, int n)
{
    fprintf(f, " %s ", name);
    for (int i = 0; i < n; i++)
        fprintf(f, "%s%lld", i ? "," : "", (long long)v[i]);
}

static void print_resize(FILE *f, const struct tachy_plan_attr *a)
{
    static const char *const coords[] = {"half-pixel", "asymmetric", "align-corners",
                                         "pytorch-half-pixel"};
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    fprintf(f, " %s %s scale %g,%g", modes[a->resize.mode], coords[a->resize.coords], (double)a->resize.scale[0], (double)a->resize.scale[1]);
}

// For operators that use indices, find them, or sample at computed positions.
static void print_index(FILE *f, const struct tachy_node *n)
{
    static const char *const scatters[] = {"set", "add", "mul", "max", "min"}, *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const outside[] = {"zeros", "border", "reflection"};
    const struct tachy_plan_attr *a = &n->attr;
    switch (n->op) {
    case TACHY_OP_GATHER_ND: fprintf(f, " batches %d", a->axis); break;
    case TACHY_OP_SCATTER_EACH: fprintf(f, " axis %d", a->scatter.axis); // fall through
    case TACHY_OP_SCATTER_ND: fprintf(f, " %s", scatters[a->scatter.how]); break;
    case TACHY_OP_TOP:
    case TACHY_OP_ARG:
        fprintf(f, " %s%s axis %d", a->arg.last ? "last " : "", a->arg.min ? "min" : "max", a->arg.axis);
        break;
    case TACHY_OP_GRID_SAMPLE:
        fprintf(f, " %s %s%s", modes[a->grid.mode], outside[a->grid.outside], a->grid.align_corners ? " align-corners" : "");
        break;
    default: break;
    }
}

static void print_pool(FILE *f, const struct tachy_plan_attr *a)
{
    fputs(a->pool.average ? " average" : " max", f);
    print_list(f, "kernel", a->pool.kernel, 2, 1);
    print_list(f, "stride", a->pool.stride, 2, 1);
    print_list(f, "pad", a->pool.pad, 4, 0);
}

static void print_reduce(FILE *f, const struct tachy_plan_attr *a, int rank)
{
    static const char *const hows[] = {"mean", "sum", "max",        "min",     "prod",
                                       "l1",   "l2",  "sum-square", "log-sum", "log-sum-exp"};
    fprintf(f, " %s", hows[a->reduce.how]);
    for (int i = 0; i < rank; i++)
        if (a->reduce.axis[i])
            fprintf(f, " %d", i);
}

static void print_pair(FILE *f, const char *first, const int64_t *a, const char *second, const int64_t *b, int rank)
{
    print_longs(f, first, a, rank);
    print_longs(f, second, b, rank);
}

// Scales and zero points of operands and result.
static void print_levels(FILE *f, const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    if (n->op == TACHY_OP_CONV_INT8)
        fprintf(f, " zero %g", (double)a->levels.in_zero);
    for (int i = 0; i < 2 && (n->op != TACHY_OP_CONV_INT8 || (n->nb_in > 4 && n->in[4])); i++)
        fprintf(f, " (q - %g) %g", (double)a->levels.zero[i], (double)a->levels.scale[i]);
    if (n->out->dtype == TACHY_U8 || n->out->dtype == TACHY_I8)
        fprintf(f, " to / %g + %g", (double)a->levels.out_scale, (double)a->levels.out_zero);
}

static void print_attr(FILE *f, const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    int rank = n->in[0] ? n->in[0]->rank : 0;
    switch (n->op) {
    case TACHY_OP_CONV:
    case TACHY_OP_DECONV: print_conv(f, a); break;
    case TACHY_OP_CONV_INT8:
        print_conv(f, a);
        print_levels(f, n);
        break;
    case TACHY_OP_BINARY_INT8: print_levels(f, n); // fall through
    case TACHY_OP_BINARY: fprintf(f, " %s", tachy_plan_binary_name(a->binary)); break;
    case TACHY_OP_GROUP_NORM: fprintf(f, " groups %d", a->norm.groups); // fall through
    case TACHY_OP_LAYER_NORM: fprintf(f, " epsilon %g", (double)a->norm.epsilon); break;
    case TACHY_OP_GATHER:
    case TACHY_OP_GATHER_EACH:
    case TACHY_OP_CONCAT:
    case TACHY_OP_SOFTMAX: fprintf(f, " axis %d%s", a->axis, a->log ? " log" : ""); break;
    case TACHY_OP_TRANSPOSE: print_list(f, "perm", a->perm, rank, -1); break;
    case TACHY_OP_SLICE: print_pair(f, "start", a->slice.start, "step", a->slice.step, rank); break;
    case TACHY_OP_PAD: print_pair(f, "before", a->pad.before, "after", a->pad.after, rank); break;
    case TACHY_OP_POOL: print_pool(f, a); break;
    case TACHY_OP_RESIZE: print_resize(f, a); break;
    case TACHY_OP_REDUCE: print_reduce(f, a, rank); break;
    case TACHY_OP_MATMUL: fprintf(f, "%s%s", a->matmul.trans_a ? " trans-a" : "", a->matmul.trans_b ? " trans-b" : ""); break;
    default: print_index(f, n); break;
    }
    fputs(a->act_before_add ? " act-before-add" : "", f);
    fputs(a->row_sums ? " row-sums" : "", f);
    print_act(f, &a->act);
}

static void print_node(FILE *f, const struct tachy_node *n)
{
    fprintf(f, "%%%d ", n->out->id);
    if (n->name && *n->name)
        fprintf(f, "%s ", n->name);
    print_shape(f, n->out);
    fprintf(f, " = %s(", tachy_plan_op_name(n->op));
    for (int i = 0; i < n->nb_in; i++) {
        fputs(i ? ", " : "", f);
        print_input(f, n->in[i]);
    }
    fputc(')', f);
    print_attr(f, n);
    fputc('\n', f);
}

char *tachy_graph_print(const struct tachy_graph *g)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    for (int i = 0; i < g->nb_in; i++) {
        fprintf(f, "%%%d %s ", g->in[i]->id, g->in[i]->name ? g->in[i]->name : "");
        print_shape(f, g->in[i]);
        fputs(" = input\n", f);
    }
    for (const struct tachy_node *n = g->first; n; n = n->next)
        print_node(f, n);
    for (int i = 0; i < g->nb_out; i++)
        fprintf(f, "output %%%d %s\n", g->out[i]->id, g->out[i]->name ? g->out[i]->name : "");
    if (fclose(f)) {
        free(text);
        return NULL;
    }
    return text;
}
