#include "base/base.h"
#include "serve/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

// The address of a server, and who may use it.

enum { TOKEN_MIN = 16, TOKEN_MAX = 1024 };

int tachy_serve_address(const char *text, struct sockaddr_storage *out, const char *name, const struct tachy_log *log)
{
    char host[256] = "127.0.0.1";
    const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
    size_t n = colon ? (size_t)(colon - text) : 0;
    bool bracketed = n >= 2 && text[0] == '[' && colon[-1] == ']';
    if (n >= sizeof(host) || !*port || strspn(port, "0123456789") != strlen(port) || strlen(port) > 5 ||
        atoi(port) > 65535 || (colon && !n) || (colon && !bracketed && memchr(text, ':', n)))
        return tachy_fail(log, TACHY_ERR_INVAL, "%s: \"%.80s\" is no [HOST:]PORT, as 9464, 127.0.0.1:9464 or [::1]:9464 are",
                          name, text);
    if (n)
        snprintf(host, sizeof(host), "%.*s", (int)n - 2 * bracketed, text + bracketed);
    struct addrinfo *found = NULL;
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int err = getaddrinfo(host, port, &want, &found);
    if (err)
        return tachy_fail(log, TACHY_ERR_INVAL, "%s: %.80s: %s", name, host, gai_strerror(err));
    memset(out, 0, sizeof(*out));
    memcpy(out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return TACHY_OK;
}

bool tachy_serve_is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;
    return a->ss_family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127));
}

void tachy_serve_show(const struct sockaddr_storage *a, char *buf, size_t size)
{
    char host[64], port[16];
    bool six = a->ss_family == AF_INET6;
    socklen_t n = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (getnameinfo((const struct sockaddr *)a, n, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(buf, size, "?");
    else
        snprintf(buf, size, six ? "[%s]:%s" : "%s:%s", host, port);
}

// The first line of a file.
static int read_token(const char *path, char *line, int size, const char *option, const struct tachy_log *log)
{
    struct stat st;
    FILE *f = fopen(path, "re");
    errno = f ? 0 : errno;
    bool got = f && fgets(line, size, f);
    int why = errno;
    if (f && fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077))
        tachy_msg(log, TACHY_LOG_WARN, "%s: other users may read or change the token (chmod 600)", path);
    if (f)
        fclose(f);
    if (got)
        return TACHY_OK;
    return why ? tachy_fail(log, tachy_err_from_errno(why), "%s %s: cannot be read: %s", option, path, strerror(why))
               : tachy_fail(log, TACHY_ERR_INVAL, "%s %s: is empty; its first line is the token", option, path);
}

int tachy_serve_token(char **token, const char *path, const char *text, const char *option, const struct tachy_log *log)
{
    char line[TOKEN_MAX + 2] = "";
    *token = NULL;
    if (!path && !text)
        return TACHY_OK;
    int err = path ? read_token(path, line, sizeof(line), option, log) : TACHY_OK;
    if (err < 0)
        return err;
    if (!path)
        snprintf(line, sizeof(line), "%s", text);
    line[strcspn(line, "\r\n")] = '\0';
    size_t n = strlen(line);
    bool printable = true;
    for (size_t i = 0; i < n; i++)
        printable = printable && line[i] > ' ' && line[i] < 0x7f;
    if (n < TOKEN_MIN || n > TOKEN_MAX || !printable)
        return tachy_fail(log, TACHY_ERR_INVAL, "%s%s%s: a token has %d to %d printable characters without a blank, and this has %zu%s; make "
                          "one with: openssl rand -hex 32", path ? option : "$TACHY_METRICS_TOKEN", path ? " " : "", path ? path : "",
                          TOKEN_MIN, TOKEN_MAX, n, printable ? "" : ", some of them others");
    *token = strdup(line);
    return *token ? TACHY_OK : TACHY_ERR_NOMEM;
}

bool tachy_serve_same_secret(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    volatile unsigned char different = n != m;
    for (size_t i = 0; i < n; i++) // only the length of what was sent, which the sender knows
        different |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
    return !different;
}

bool tachy_serve_is_literal_host(const char *host)
{
    char name[64];
    unsigned char ip[sizeof(struct in6_addr)];
    size_t n = host ? strlen(host) : 0;
    if (!n || n >= sizeof(name))
        return false;
    if (*host == '[') {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(host + 1, "]"), host + 1);
        return inet_pton(AF_INET6, name, ip) == 1;
    }
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(host, ":"), host);
    return !strcasecmp(name, "localhost") || inet_pton(AF_INET, name, ip) == 1;
}
