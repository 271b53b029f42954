#include "base/base.h"
#include "provider/provider.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

// The context that a program and one session share (base/ep_table.h). A session's options are text, so an option names
// the context by its number, and the session looks it up here.

struct tachy_ep_context {
    // Under `lock`.
    struct tachy_ep_context *next;
    int owners; // the program and the session
    // Constant.
    char id[24];
    unsigned want;
    char *after;
    // Written by the thread that creates the session.
    struct provider_plan *plan; // for take()
    struct tachy_ep_node *nodes;
    struct tachy_ep_graph *graphs;
    int nb_nodes, nb_graphs;
    int failed; // code
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tachy_ep_context *contexts; // open ones
static unsigned long long opened;         // number of contexts opened so far

static void drop_nodes(struct tachy_ep_node *nodes, int nb)
{
    for (int i = 0; i < nb; i++) {
        tachy_free((void *)(uintptr_t)nodes[i].op);
        tachy_free((void *)(uintptr_t)nodes[i].name);
    }
    free(nodes);
}

void provider_graph_free(struct tachy_ep_graph *g)
{
    tachy_free((void *)(uintptr_t)g->text);
    free((void *)(uintptr_t)g->layers);
}

static void context_free(struct tachy_ep_context *c)
{
    provider_plan_close(&c->plan);
    drop_nodes(c->nodes, c->nb_nodes);
    for (int i = 0; i < c->nb_graphs; i++)
        provider_graph_free(&c->graphs[i]);
    free(c->graphs);
    free(c->after);
    free(c);
}

// ---- For the program

struct tachy_ep_context *provider_context_open(unsigned want, const char *after)
{
    struct tachy_ep_context *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->want = want;
    c->after = after ? strdup(after) : NULL;
    if (after && !c->after) {
        free(c);
        return NULL;
    }
    c->owners = 1;
    pthread_mutex_lock(&lock);
    snprintf(c->id, sizeof(c->id), "%llu", ++opened);
    c->next = contexts;
    contexts = c;
    pthread_mutex_unlock(&lock);
    return c;
}

const char *provider_context_id(const struct tachy_ep_context *c) { return c->id; }

// Sessions that are created later do not find it.
void provider_context_release(struct tachy_ep_context *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&lock);
    struct tachy_ep_context **link = &contexts;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    pthread_mutex_unlock(&lock);
    provider_context_close(&c);
}

struct tachy_ep_plan *provider_take(struct tachy_ep_context *c)
{
    struct provider_plan *p = c->plan;
    c->plan = NULL;
    return (struct tachy_ep_plan *)p;
}

int provider_failed(const struct tachy_ep_context *c) { return c->failed; }

int provider_nodes_of(const struct tachy_ep_context *c) { return c->nb_nodes; }

bool provider_node(const struct tachy_ep_context *c, int i, struct tachy_ep_node *n)
{
    if (i < 0 || i >= c->nb_nodes)
        return false;
    *n = c->nodes[i];
    return true;
}

bool provider_graph(const struct tachy_ep_context *c, int i, struct tachy_ep_graph *g)
{
    if (i < 0 || i >= c->nb_graphs)
        return false;
    *g = c->graphs[i];
    return true;
}

// ---- For the session

struct tachy_ep_context *provider_context_find(const char *id)
{
    pthread_mutex_lock(&lock);
    struct tachy_ep_context *c = contexts;
    while (c && strcmp(c->id, id) != 0)
        c = c->next;
    if (c)
        c->owners++;
    pthread_mutex_unlock(&lock);
    return c;
}

void provider_context_close(struct tachy_ep_context **context)
{
    struct tachy_ep_context *c = *context;
    *context = NULL;
    if (!c)
        return;
    pthread_mutex_lock(&lock);
    bool last = --c->owners == 0;
    pthread_mutex_unlock(&lock);
    if (last)
        context_free(c);
}

bool provider_wants(const struct tachy_ep_context *c, enum tachy_ep_want want) { return c && c->want & want; }

const char *provider_after(const struct tachy_ep_context *c) { return c ? c->after : NULL; }

void provider_keep(struct tachy_ep_context *c, struct provider_plan *p)
{
    if (!c)
        return;
    provider_plan_close(&c->plan);
    c->plan = p && !p->whole_numbers ? provider_plan_ref(p) : NULL;
}

void provider_set_failed(struct tachy_ep_context *c, int err)
{
    if (c)
        c->failed = err;
}

void provider_record(struct tachy_ep_context *c, struct tachy_ep_node *nodes, int nb)
{
    drop_nodes(c->nodes, c->nb_nodes);
    c->nodes = nodes;
    c->nb_nodes = nb;
}

int provider_add_graph(struct tachy_ep_context *c, const struct tachy_ep_graph *g)
{
    struct tachy_ep_graph *longer = realloc(c->graphs, ((size_t)c->nb_graphs + 1) * sizeof(*longer));
    if (!longer)
        return TACHY_ERR_NOMEM;
    c->graphs = longer;
    c->graphs[c->nb_graphs++] = *g;
    return TACHY_OK;
}

void provider_set_figures(struct tachy_ep_context *c, const struct tachy_plan_info *i)
{
    if (!c || !c->nb_graphs)
        return;
    struct tachy_ep_graph *g = &c->graphs[c->nb_graphs - 1];
    g->nodes = i->nodes;
    g->steps = i->steps;
    g->weights = i->weights;
    g->arena = i->arena;
    g->scratch = i->scratch;
}
