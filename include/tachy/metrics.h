#pragma once
#include <tachy/control.h>

#ifdef __cplusplus
extern "C" {
#endif

// Serves a control's figures to Prometheus, at http://ADDRESS/metrics (docs/metrics.md). It has its own thread; reading
// figures does not delay a run. Thread-safety: one thread opens and closes it; any thread may call the other functions.
typedef struct tachy_metrics tachy_metrics;

struct tachy_metrics_params {
    tachy_control *control; // required; must outlive the server
    const char *address;    // required: "[HOST:]PORT"; without HOST 127.0.0.1; port 0: any free one
    const char *token;      // 16 to 1024 printable characters that a scrape must send; NULL: none
    const char *token_file; // a file whose first line is the token, instead of `token`; NULL: none
    const struct tachy_log *log; // logs the URL at INFO. NULL: silent; must outlive the server
};
#define tachy_metrics_params(...) (&(struct tachy_metrics_params){__VA_ARGS__})

// Starts to listen; the strings need only live until this returns. TACHY_ERR_INVAL: no address, an invalid token, or an
// address that other machines can reach without a token; TACHY_ERR_UNAVAILABLE: the port is in use, or the library was
// built without libmicrohttpd.
TACHY_API int tachy_metrics_open_sized(size_t p_size, tachy_metrics **out, const struct tachy_metrics_params *p);
#define tachy_metrics_open(...) tachy_metrics_open_sized(sizeof(struct tachy_metrics_params), __VA_ARGS__)

// Call after the runs have ended: from then on tachy_metrics_was_read() tells whether somebody has read the final
// figures.
TACHY_API void tachy_metrics_end(tachy_metrics *m);
TACHY_API bool tachy_metrics_was_read(const tachy_metrics *m);

TACHY_API void tachy_metrics_close(tachy_metrics **m); // closes all connections

#ifdef __cplusplus
}
#endif
