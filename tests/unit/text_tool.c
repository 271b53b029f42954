#include "text/vocabulary.h"

#include <stdio.h>
#include <stdlib.h>

// text_tool VOCABULARY ROOM: reads texts from standard input, each terminated by NUL; writes each text's tokens as a
// line. For tests/e2e/test_categorize.py.

int main(int argc, char **argv)
{
    tachy_vocabulary *v = NULL;
    int room = argc == 3 ? atoi(argv[2]) : 0;
    int32_t *tokens = room >= 2 ? calloc((size_t)room, sizeof(*tokens)) : NULL;
    char *text = NULL;
    size_t size = 0;
    if (!tokens || tachy_vocabulary_read(&v, argv[1], NULL) < 0)
        return 1;
    while (getdelim(&text, &size, '\0', stdin) > 0) {
        int n = tachy_tokenize(v, text, tokens, room);
        for (int i = 0; i < n; i++)
            printf("%d%c", tokens[i], i + 1 < n ? ' ' : '\n');
        if (n < 0)
            printf("error %d\n", n);
    }
    free(text);
    free(tokens);
    tachy_vocabulary_close(&v);
    return 0;
}
