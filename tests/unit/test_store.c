#include "base/base.h"
#include "base/mix.h"
#include "base/store.h"
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

// The engine store: what comes back, what must not, and what goes.

static const uint64_t digest[2] = {0x0123456789abcdef, 0xfedcba9876543210};
static char key[TACHY_STORE_KEY + 1], dir[64], path[160];
static int warnings;

static void count(void *user, enum tachy_log_level level, const char *msg)
{
    (void)user;
    warnings += level == TACHY_LOG_WARN && strstr(msg, ".plan");
}
static const struct tachy_log log_ = {count, NULL, TACHY_LOG_DEBUG};

static void begin(void)
{
    snprintf(dir, sizeof(dir), "/tmp/tachy-store-XXXXXX");
    CHECK(mkdtemp(dir));
    tachy_store_key(digest, key);
    CHECK_STR(key, "0123456789abcdeffedcba9876543210");
    snprintf(path, sizeof(path), "%s/%s.plan", dir, key);
    warnings = 0;
}

static void end(void)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    CHECK_INT(rmdir(dir), 0);
}

static void save(const char *text) { CHECK_INT(tachy_store_save(dir, key, "a network", text, &log_), TACHY_OK); }

// The text stored under the key, "" for none; a static copy.
static const char *loaded(void)
{
    static char copy[4096];
    char *text = NULL;
    int err = tachy_store_load(dir, key, &text, &log_);
    CHECK(err == (text ? TACHY_OK : TACHY_ERR_NOT_FOUND));
    snprintf(copy, sizeof(copy), "%s", text ? text : "");
    tachy_free(text);
    return copy;
}

static void overwrite(const char *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, size, f) == size);
    if (f)
        fclose(f);
}

TEST(round_trip)
{
    begin();
    CHECK_STR(loaded(), "");
    CHECK_INT(warnings, 0); // that there is none is nothing to speak of
    save("first\nlines\n");
    CHECK_STR(loaded(), "first\nlines\n");
    save("second");
    CHECK_STR(loaded(), "second");
    CHECK_INT(warnings, 0);
    end();
    char deep[120];
    begin();
    snprintf(deep, sizeof(deep), "%s/a/b", dir);
    CHECK_INT(tachy_store_save(deep, key, "", "x", NULL), TACHY_OK); // folders are made
    snprintf(path, sizeof(path), "%s/%s.plan", deep, key);
    CHECK_INT(unlink(path), 0);
    CHECK_INT(rmdir(deep), 0);
    *strrchr(deep, '/') = '\0';
    CHECK_INT(rmdir(deep), 0);
    end();
}

TEST(damaged)
{
    char *data;
    size_t size;
    begin();
    save("conv 1 2 3 = avx2 3x6\nconv 4 5 6 = avx2 2x10\n");
    CHECK_INT(tachy_read_file(path, 4096, &data, &size, NULL), TACHY_OK);
    int before = warnings;
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            data[i] = (char)(data[i] ^ 1 << bit);
            overwrite(data, size);
            CHECK_STR(loaded(), "");
            data[i] = (char)(data[i] ^ 1 << bit);
        }
    for (size_t n = 0; n < size; n++) {
        overwrite(data, n);
        CHECK_STR(loaded(), "");
    }
    CHECK_INT(warnings - before, 9 * (int)size); // each with a line
    tachy_free(data);
    save("again");
    CHECK_STR(loaded(), "again");
    end();
}

// A file as a writer would make it, with a right checksum.
static void craft(const char *version, const char *of)
{
    char body[512], file[600];
    snprintf(body, sizeof(body), "version %s\nkey %s\ntitle t\n\ntext", version, of);
    snprintf(file, sizeof(file), "tachy engine 1 %016" PRIx64 "\n%s", tachy_mix(1, body, strlen(body)), body);
    overwrite(file, strlen(file));
}

TEST(foreign)
{
    begin();
    craft(TACHY_VERSION, key);
    CHECK_STR(loaded(), "text"); // the file is what we think it is
    craft("0.0.1", key);
    CHECK_STR(loaded(), "");
    craft(TACHY_VERSION, "00000000000000000000000000000000"); // another's, copied
    CHECK_STR(loaded(), "");
    overwrite("\0\0\0", 3);
    CHECK_STR(loaded(), "");
    CHECK_INT(unlink(path), 0);
    CHECK_INT(mkdir(path, 0777), 0);
    CHECK_STR(loaded(), "");
    CHECK(tachy_store_save(dir, key, "", "x", NULL) < 0); // a folder of that name stays
    CHECK_INT(rmdir(path), 0);
    CHECK_INT(mkfifo(path, 0666), 0); // and a pipe is not waited for
    CHECK_STR(loaded(), "");
    CHECK_INT(warnings, 5);
    end();
}

TEST(not_writable)
{
    begin();
    char below[200];
    overwrite("", 0);
    snprintf(below, sizeof(below), "%s/below", path); // below a file, which root cannot write either
    CHECK(tachy_store_save(below, key, "t", "x", &log_) < 0);
    CHECK_INT(unlink(path), 0);
    // A disk that is full fails as a file does that may not grow.
    struct rlimit old, none = {16, 0};
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &old), 0);
    none.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &none), 0);
    CHECK(tachy_store_save(dir, key, "t", "x", &log_) < 0);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &old), 0);
    CHECK_STR(loaded(), "");
    CHECK_INT(warnings, 0);
    end(); // nothing but the folder is left
}

// Two processes write while this one reads: one of the two texts, whole, every time.
TEST(two_processes)
{
    static char text[2][3000];
    pid_t child[2];
    begin();
    for (int i = 0; i < 2; i++)
        memset(text[i], 'a' + i, sizeof(text[i]) - 1 - (size_t)i * 1000);
    save(text[0]);
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            for (int k = 0; k < 300; k++)
                if (tachy_store_save(dir, key, "t", text[i], NULL) < 0)
                    _exit(1);
            _exit(0);
        }
    }
    for (int k = 0; k < 300; k++) {
        const char *now = loaded();
        CHECK(!strcmp(now, text[0]) || !strcmp(now, text[1]));
    }
    for (int i = 0; i < 2; i++) {
        int status;
        CHECK_INT(waitpid(child[i], &status, 0), child[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK_INT(warnings, 0);
    end();
}

static void age(const char *name, int days)
{
    time_t then = time(NULL) - (time_t)days * 24 * 3600;
    CHECK_INT(utime(name, &(struct utimbuf){then, then}), 0);
}

TEST(list_and_remove)
{
    struct tachy_store_entries *l;
    int nb;
    uint64_t bytes;
    begin();
    struct tachy_store_params p = {.dir = dir, .log = &log_};
    char other[TACHY_STORE_KEY + 1], part[200], foreign[120];
    tachy_store_key((uint64_t[]){1, 2}, other);
    CHECK_INT(tachy_store_save(dir, other, "old\nnetwork", "x", NULL), TACHY_OK);
    snprintf(part, sizeof(part), "%s/%s.plan", dir, other);
    age(part, 50);
    craft("0.0.1", key);
    snprintf(part, sizeof(part), "%s/%s.plan.77.part", dir, other);
    CHECK_INT(link(path, part), 0);
    CHECK_INT(unlink(part), 0);
    CHECK_INT(close(open(part, O_CREAT | O_WRONLY, 0666)), 0);
    age(part, 1);
    snprintf(foreign, sizeof(foreign), "%s/notes.txt", dir);
    CHECK_INT(close(open(foreign, O_CREAT | O_WRONLY, 0666)), 0);

    CHECK_INT(tachy_store_list(&l, &p), TACHY_OK);
    CHECK_INT(l->nb_entries, 2);
    CHECK_STR(l->entries[0].key, key);
    CHECK_INT(l->entries[0].state, TACHY_STORE_OUTDATED);
    CHECK_STR(l->entries[1].title, "old network");
    CHECK_INT(l->entries[1].state, TACHY_STORE_GOOD);
    CHECK_INT(l->bytes, l->entries[0].bytes + l->entries[1].bytes);
    uint64_t outdated = l->entries[0].bytes;
    tachy_store_list_free(&l);

    CHECK_INT(tachy_store_remove(&p, NULL, &nb, &bytes), TACHY_OK); // the outdated one
    CHECK_INT(nb, 1);
    CHECK_INT(bytes, outdated);
    CHECK(access(part, F_OK) < 0 && access(foreign, F_OK) == 0);
    CHECK_INT(tachy_store_remove(&p, &(struct tachy_store_gc){.unused_days = 60}, &nb, NULL), TACHY_OK);
    CHECK_INT(nb, 0);
    CHECK_INT(tachy_store_remove(&p, &(struct tachy_store_gc){.unused_days = 40}, &nb, NULL), TACHY_OK);
    CHECK_INT(nb, 1);
    save("x");
    CHECK_INT(tachy_store_remove(&p, &(struct tachy_store_gc){.all = true}, &nb, NULL), TACHY_OK);
    CHECK_INT(nb, 1);
    end();

    CHECK_INT(tachy_store_list(&l, &p), TACHY_OK); // no folder: nothing in it
    CHECK_INT(l->nb_entries, 0);
    tachy_store_list_free(&l);
}

// An entry that is read counts as used, so it is not removed as unused.
TEST(use_counts)
{
    struct tachy_store_entries *l;
    begin();
    save("x");
    age(path, 100);
    CHECK_STR(loaded(), "x");
    CHECK_INT(tachy_store_list(&l, &(struct tachy_store_params){.dir = dir}), TACHY_OK);
    CHECK(time(NULL) - l->entries[0].used < 3600);
    tachy_store_list_free(&l);
    end();
}

static bool digest_of(uint64_t h[2], const uint8_t *data, size_t first, size_t size)
{
    h[0] = 1, h[1] = 2;
    return tachy_mix_parts(h, (struct tachy_mix_part[]){{data, first}, {data + first, size - first}}, 2);
}

// As many threads as there are cores give what one gives; every piece, its place and where a part ends count.
TEST(digest_of_parts)
{
    enum { PIECE = 1 << 20, FIRST = 3 * PIECE, SIZE = 12 * PIECE + 77 };
    uint8_t *data = malloc(SIZE);
    uint64_t want[2] = {1, 2}, got[2], piece[2];
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t end = FIRST, at = 0; at < SIZE; end = SIZE) // a part whose length is a multiple of a piece's ends in an empty one
        for (bool more = true; more; at += more ? PIECE : 0) {
            size_t n = TACHY_MIN(end - at, (size_t)PIECE);
            piece[0] = 0, piece[1] = 1;
            tachy_mix_wide(piece, data + at, n);
            tachy_mix_wide(want, piece, sizeof(piece));
            more = n == PIECE;
            at += more ? 0 : n;
        }
    CHECK(digest_of(got, data, FIRST, SIZE) && !memcmp(got, want, sizeof(got)));
    CHECK(digest_of(got, data, FIRST + 1, SIZE) && memcmp(got, want, sizeof(got)) != 0);
    for (size_t at = 5; at < SIZE; at += PIECE) {
        data[at] ^= 1;
        CHECK(digest_of(got, data, FIRST, SIZE) && memcmp(got, want, sizeof(got)) != 0);
        data[at] ^= 1;
    }
    free(data);
}

TEST_MAIN(TEST_CASE(round_trip), TEST_CASE(damaged), TEST_CASE(foreign), TEST_CASE(not_writable),
          TEST_CASE(two_processes), TEST_CASE(list_and_remove), TEST_CASE(use_counts), TEST_CASE(digest_of_parts))
