#include "plan/cpu/choice.h"

#include "base/base.h"
#include "base/numeric.h"

#include <stdio.h>
#include <stdlib.h>

// A choice as text: the effort, the time of a run as chosen and with the defaults, and a line a shape:
//
//   conv N H W CIN COUT KH KW, stride, dilation, padding, groups, scaled | kernels there are | the chosen

enum { LINE = 256 };

// A group's line up to the name of its kernel.
static void head_of(const struct choice_group *g, char to[LINE])
{
    const struct tachy_conv_shape *s = &g->shape;
    snprintf(to, LINE, "conv %d %d %d %d %d %d %d, %d %d, %d %d, %d %d %d %d, %d, %d | %d | ", s->n, s->h, s->w,
             s->cin, s->cout, s->kh, s->kw, s->stride_h, s->stride_w, s->dil_h, s->dil_w, s->pad_top, s->pad_left,
             s->pad_bottom, s->pad_right, s->groups, g->scaled, g->nb);
}

char *choice_print(const struct choice *c, const struct plan_choice *about)
{
    char *text = NULL, head[LINE], name[TACHY_CONV_NAME];
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    locale_t before = tachy_numeric_enter();
    fprintf(f, "effort %d\nrun %.4f ms, default %.4f ms\n", about->effort, about->run_ms, about->default_run_ms);
    tachy_numeric_leave(before);
    for (int i = 0; i < c->nb_groups; i++) {
        const struct choice_group *g = &c->groups[i];
        head_of(g, head);
        if (g->nb > 1)
            fprintf(f, "%s%s\n", head, tachy_conv_variant_name(&g->v[g->chosen], name));
    }
    if (fclose(f)) {
        free(text);
        return NULL;
    }
    return text;
}

// The group's kernel after a text: only one that the shape has here. -1: none.
static int find_variant(const struct choice_group *g, const char *text)
{
    char head[LINE], name[TACHY_CONV_NAME];
    head_of(g, head);
    const char *at = strstr(text, head); // of no other line: its end is fixed
    if (!at || (at > text && at[-1] != '\n'))
        return -1;
    at += strlen(head);
    size_t n = strcspn(at, "\n");
    for (int i = 0; i < g->nb; i++)
        if (strlen(tachy_conv_variant_name(&g->v[i], name)) == n && !strncmp(at, name, n))
            return i;
    return -1;
}

bool choice_parse(struct choice *c, struct plan_choice *about, const char *text, int effort)
{
    struct plan_choice a = {0};
    locale_t before = tachy_numeric_enter();
    int got = sscanf(text, "effort %d\nrun %lf ms, default %lf ms", &a.effort, &a.run_ms, &a.default_run_ms);
    tachy_numeric_leave(before);
    if (got != 3 || a.effort < effort || a.effort > 3 || !(a.run_ms >= 0) || !(a.default_run_ms >= 0))
        return false;
    for (int i = 0; i < c->nb_groups; i++)
        if (c->groups[i].nb > 1 && find_variant(&c->groups[i], text) < 0)
            return false;
    for (int i = 0; i < c->nb_groups; i++)
        c->groups[i].chosen = c->groups[i].nb > 1 ? find_variant(&c->groups[i], text) : 0;
    *about = a;
    return true;
}
