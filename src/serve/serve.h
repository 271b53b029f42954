#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <tachy/common.h>

// An HTTP server of a few pages for many callers: none that is idle, slow or rude keeps another out, or the end waiting.
// Thread-safety: its own thread calls the functions of the params; tachy_server_wake() is for any thread, the others are for
// one.
typedef struct tachy_server tachy_server;

// A request that is being answered.
typedef struct tachy_call tachy_call;

struct tachy_server_params {
    const char *name;    // of the option or output, which messages begin with
    const char *address; // "[HOST:]PORT"; without HOST 127.0.0.1; port 0: any that is free
    const char *token;   // that a caller must bring; NULL: everybody who reaches the address, which other machines then must not
    const char *token_option; // that asks for one, for messages
    bool browser; // a caller without the token is asked for it as a password. Without a token the caller must name the server by
                  // an address or as localhost: pages of other sites cannot
    // Answers a complete request with tachy_call_reply() or tachy_call_stream(), whose result it returns.
    bool (*answer)(void *user, tachy_call *call, const char *path);
    // The next bytes of a stream, at most `room`; 0: there are none until tachy_server_wake(); -1: it ends. NULL: no streams.
    ssize_t (*more)(void *user, void *tag, char *to, size_t room);
    // The connection of an answer with a tag has ended; `taken`: not because the caller was late. NULL: nobody asks.
    void (*closed)(void *user, void *tag, bool taken);
    void *user;
    const struct tachy_log *log; // NULL: silent; must outlive the server
};

// Listens and starts the thread. `name`, `address` and `token` are read during open only. TACHY_ERR_INVAL: the address is
// none, or other machines reach it and there is no token; TACHY_ERR_UNAVAILABLE: it cannot be listened on, or the library is missing.
int tachy_server_open(tachy_server **out, const struct tachy_server_params *p);

// "127.0.0.1:9464", with the port that was free. The server's memory.
const char *tachy_server_where(const tachy_server *s);

// There is more for streams that wait.
void tachy_server_wake(tachy_server *s);

void tachy_server_close(tachy_server **s); // closes all connections; *s may be NULL

// ---- Answers, within params.answer

#define TACHY_PLAIN "text/plain; charset=utf-8"

// Copies `body`. `tag`: for closed(); NULL: nothing is told.
bool tachy_call_reply(tachy_call *c, unsigned status, const char *type, const void *body, size_t size, void *tag);
// A short text, most often why there is nothing.
bool tachy_call_say(tachy_call *c, unsigned status, const char *text);
// Sends an answer whose bytes come from more(). False also if there are too many streams: refused with status 503, and
// `tag` stays the caller's.
bool tachy_call_stream(tachy_call *c, const char *type, void *tag, bool *refused);

// ---- access.c: who may come

// "[HOST:]PORT". `name` begins the sentence of an error.
int tachy_serve_address(const char *text, struct sockaddr_storage *out, const char *name, const struct tachy_log *log);
bool tachy_serve_is_loopback(const struct sockaddr_storage *a);
void tachy_serve_show(const struct sockaddr_storage *a, char *buf, size_t size); // "127.0.0.1:9464"
// The first line of `path`, or `text` without a path; NULL: neither. `option` names the file in messages. Free *token.
int tachy_serve_token(char **token, const char *path, const char *text, const char *option, const struct tachy_log *log);
// Takes as long whatever the two texts share.
bool tachy_serve_same_secret(const char *a, const char *b);
// True if a request's Host header names an address or localhost. NULL: there was none.
bool tachy_serve_is_literal_host(const char *host);
