#include "cli.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

// Where metrics are served, and to whom.

enum { TOKEN_MIN = 16, TOKEN_MAX = 1024 };

int metrics_address(const char *text, struct sockaddr_storage *out, unsigned *size)
{
    char host[256] = "127.0.0.1";
    const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
    size_t n = colon ? (size_t)(colon - text) : 0;
    bool bracketed = n >= 2 && text[0] == '[' && colon[-1] == ']';
    if (n >= sizeof(host) || !*port || strspn(port, "0123456789") != strlen(port) ||
        strlen(port) > 5 || atoi(port) > 65535 || (colon && !n) ||
        (colon && !bracketed && memchr(text, ':', n))) {
        message_error("--enable-metrics: \"%.80s\" is no [HOST:]PORT, as 9464, 127.0.0.1:9464 or "
                      "[::1]:9464 are",
                      text);
        return TACHY_ERR_INVAL;
    }
    if (n)
        snprintf(host, sizeof(host), "%.*s", (int)n - 2 * bracketed, text + bracketed);
    struct addrinfo *found = NULL;
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int err = getaddrinfo(host, port, &want, &found);
    if (err) {
        message_error("--enable-metrics: %.80s: %s", host, gai_strerror(err));
        return TACHY_ERR_INVAL;
    }
    memset(out, 0, sizeof(*out));
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *size = found->ai_addrlen;
    freeaddrinfo(found);
    return TACHY_OK;
}

bool metrics_is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;
    return a->ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127));
}

void metrics_show(const struct sockaddr_storage *a, char *buf, size_t size)
{
    char host[64], port[16];
    bool six = a->ss_family == AF_INET6;
    socklen_t n = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (getnameinfo((const struct sockaddr *)a, n, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(buf, size, "?");
    else
        snprintf(buf, size, six ? "[%s]:%s" : "%s:%s", host, port);
}

static int read_token_file(const struct cli *c, const char *path, char *line, int size)
{
    struct stat st;
    FILE *f = fopen(path, "r");
    bool got = f && fgets(line, size, f);
    if (f && fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077))
        message_note(&c->log, "%s: other users may read or change the token (chmod 600)", path);
    if (f)
        fclose(f);
    if (got)
        return TACHY_OK;
    message_error("--metrics-token-file %s: %s", path, f ? "is empty" : "cannot be read");
    return f ? TACHY_ERR_INVAL : TACHY_ERR_NOT_FOUND;
}

int metrics_token(const struct cli *c, char **token)
{
    char line[TOKEN_MAX + 2] = "";
    const char *path = tachy_settings_str(c->settings, "metrics.token_file");
    const char *environment = getenv("TACHY_METRICS_TOKEN");
    *token = NULL;
    if (path) {
        int err = read_token_file(c, path, line, sizeof(line));
        if (err < 0)
            return err;
    } else if (environment) {
        snprintf(line, sizeof(line), "%s", environment);
    } else {
        return TACHY_OK;
    }
    line[strcspn(line, "\r\n")] = '\0';
    size_t n = strlen(line);
    bool printable = true;
    for (size_t i = 0; i < n; i++)
        printable = printable && line[i] > ' ' && line[i] < 0x7f;
    if (n < TOKEN_MIN || n > TOKEN_MAX || !printable) {
        message_error("the metrics' token has %d to %d printable characters without a blank; make "
                      "one with: openssl rand -hex 32",
                      TOKEN_MIN, TOKEN_MAX);
        return TACHY_ERR_INVAL;
    }
    *token = strdup(line);
    return *token ? TACHY_OK : TACHY_ERR_NOMEM;
}

bool metrics_same_secret(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    volatile unsigned char different = n != m;
    for (size_t i = 0; i < n; i++) // only the length of what was sent, which the sender knows
        different |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
    return !different;
}
