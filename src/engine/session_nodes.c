#include "engine/session.h"

#include <stdio.h>
#include <stdlib.h>

// Finds the nodes that ONNX Runtime gave to its own kernels. It only logs them, at its most verbose level, while it
// creates a session:
// Node(s) placed on [OpenVINOExecutionProvider]. Number of nodes: 3
// Conv (name)

static void add_text(struct tachy_session *s, const char *text)
{
    size_t used = strlen(s->left);
    snprintf(s->left + used, sizeof(s->left) - used, "%s", text);
}

void tachy_session_say_left(struct tachy_session *s, const char *text)
{
    enum { SHOWN = 4 };
    if (++s->nb_shown <= SHOWN) {
        add_text(s, s->nb_shown > 1 ? ", " : "");
        add_text(s, text);
    } else if (s->nb_shown == SHOWN + 1) {
        add_text(s, " and others");
    }
}

void tachy_session_on_line(void *user, const char *text)
{
    struct tachy_session *s = user;
    const char *on = strstr(text, "placed on ["), *number = strstr(text, "Number of nodes: ");
    if (on && number) {
        int n = atoi(number + strlen("Number of nodes: "));
        s->listing = !strncmp(on, "placed on [CPUExecutionProvider]", 32);
        s->nb_nodes += n;
        s->nb_left += s->listing ? n : 0;
    } else if (s->listing && !strncmp(text, "  ", 2)) {
        char one[120];
        snprintf(one, sizeof(one), "%s", text + strspn(text, " "));
        tachy_session_say_left(s, one);
    } else {
        s->listing = false;
    }
}
