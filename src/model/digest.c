#include "model/digest.h"

#include "base/path.h"

#include <errno.h>
#include <libavutil/mem.h>
#include <libavutil/sha.h>
#include <stdio.h>
#include <tachy/model.h>

struct AVSHA *digest_new(void)
{
    struct AVSHA *d = av_sha_alloc();
    if (d)
        av_sha_init(d, 256);
    return d;
}

void digest_add(struct AVSHA *d, const void *data, size_t size) { av_sha_update(d, data, size); }

void digest_hex(struct AVSHA **d, char hex[65])
{
    uint8_t sum[32];
    av_sha_final(*d, sum);
    for (size_t i = 0; i < sizeof(sum); i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    digest_free(d);
}

void digest_free(struct AVSHA **d) { av_freep(d); }

int tachy_sha256_file(const char *path, char hex[65], const struct tachy_log *log)
{
    static const size_t piece = 1 << 16;
    if (!TACHY_CHECK(log, path && hex))
        return TACHY_ERR_INVAL;
    hex[0] = '\0';
    FILE *f;
    uint64_t size;
    int err = tachy_open_regular(&f, path, &size, log);
    if (err < 0)
        return err;
    struct AVSHA *d = digest_new();
    uint8_t *buf = tachy_aligned_alloc(piece);
    err = d && buf ? TACHY_OK : TACHY_ERR_NOMEM;
    for (size_t n = piece; !err && n == piece;) {
        n = fread(buf, 1, piece, f);
        digest_add(d, buf, n);
    }
    if (!err && ferror(f))
        err = tachy_fail(log, TACHY_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (!err)
        digest_hex(&d, hex);
    digest_free(&d);
    tachy_aligned_free(buf);
    fclose(f);
    return err;
}
