#pragma once
#include <tachy/control.h>

#ifdef __cplusplus
extern "C" {
#endif

// A server of a control's figures for Prometheus, at http://ADDRESS/metrics (docs/metrics.md). It has a thread of its own,
// and reading figures stops no run.
// Thread-safety: one thread opens and closes it; the others are for any thread.
typedef struct tachy_metrics tachy_metrics;

struct tachy_metrics_params {
    tachy_control *control; // required; must outlive the server
    const char *address;    // required: "[HOST:]PORT"; without HOST 127.0.0.1; port 0: any that is free
    const char *token;      // 16 to 1024 printable characters that a scrape must bring; NULL: none
    const char *token_file; // a file whose first line is the token, instead of `token`; NULL: none
    const struct tachy_log *log; // says at INFO where the figures are. NULL: silent; must outlive the server
};
#define tachy_metrics_params(...) (&(struct tachy_metrics_params){__VA_ARGS__})

// Listens; the strings need only live until this returns. TACHY_ERR_INVAL: no address, no sound token, or an address that other
// machines reach and no token; TACHY_ERR_UNAVAILABLE: the port is taken, or the library was built without libmicrohttpd.
TACHY_API int tachy_metrics_open_sized(size_t p_size, tachy_metrics **out, const struct tachy_metrics_params *p);
#define tachy_metrics_open(...) tachy_metrics_open_sized(sizeof(struct tachy_metrics_params), __VA_ARGS__)

// The runs have ended: tachy_metrics_was_read() tells from now on whether somebody has read these last figures.
TACHY_API void tachy_metrics_end(tachy_metrics *m);
TACHY_API bool tachy_metrics_was_read(const tachy_metrics *m);

TACHY_API void tachy_metrics_close(tachy_metrics **m); // closes all connections

#ifdef __cplusplus
}
#endif
