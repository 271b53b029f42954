#include "base/base.h"
#include "serve/serve.h"

// In a build without libmicrohttpd.

int tachy_server_open(tachy_server **out, const struct tachy_server_params *p)
{
    *out = NULL;
    return tachy_fail(p->log, TACHY_ERR_UNAVAILABLE, "%s: this tachy was built without libmicrohttpd; install libmicrohttpd-dev "
                      "and build again", p->name);
}

const char *tachy_server_where(const tachy_server *s) { return ""; }
void tachy_server_wake(tachy_server *s) {}
void tachy_server_close(tachy_server **s) { *s = NULL; }
bool tachy_call_reply(tachy_call *c, unsigned status, const char *type, const void *body, size_t size, void *tag) { return false; }
bool tachy_call_say(tachy_call *c, unsigned status, const char *text) { return false; }
bool tachy_call_stream(tachy_call *c, const char *type, void *tag, bool *refused) { return !(*refused = true); }
