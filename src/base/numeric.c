#include "base/numeric.h"

#include <pthread.h>

static locale_t point; // the program's locale except numbers; kept. 0: no memory, and nothing is changed

static void make_point(void)
{
    locale_t own = duplocale(LC_GLOBAL_LOCALE);
    point = own ? newlocale(LC_NUMERIC_MASK, "C", own) : (locale_t)0;
    if (own && !point)
        freelocale(own);
}

locale_t tachy_numeric_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_point);
    return uselocale(point);
}

void tachy_numeric_leave(locale_t before) { uselocale(before); }
