// Compares sink/sdl.h with SDL's own headers.
#include "sink/sdl.h"
#include "test.h"

#include <stddef.h>

#if __has_include(<SDL2/SDL.h>)
#define SDL_MAIN_HANDLED
#include <SDL2/SDL.h>

TEST(numbers)
{
    CHECK_INT(SDL2_VIDEO, SDL_INIT_VIDEO);
    CHECK_INT(SDL2_RESIZABLE, SDL_WINDOW_RESIZABLE);
    CHECK_INT(SDL2_FULLSCREEN, SDL_WINDOW_FULLSCREEN_DESKTOP);
    CHECK_INT(SDL2_CENTERED, SDL_WINDOWPOS_CENTERED);
    CHECK_INT(SDL2_IYUV, SDL_PIXELFORMAT_IYUV);
    CHECK_INT(SDL2_JPEG, SDL_YUV_CONVERSION_JPEG);
    CHECK_INT(SDL2_BT601, SDL_YUV_CONVERSION_BT601);
    CHECK_INT(SDL2_BT709, SDL_YUV_CONVERSION_BT709);
    CHECK_INT(SDL2_STREAMING, SDL_TEXTUREACCESS_STREAMING);
    CHECK_INT(SDL2_FLIP_HORIZONTAL, SDL_FLIP_HORIZONTAL);
    CHECK_INT(SDL2_QUIT, SDL_QUIT);
    CHECK_INT(SDL2_KEYDOWN, SDL_KEYDOWN);
    CHECK_INT(SDL2_USER, SDL_USEREVENT);
    CHECK_INT(SDL2_ESCAPE, SDLK_ESCAPE);
    CHECK_INT('m', SDLK_m);
}

TEST(layout)
{
    CHECK_INT(sizeof(struct sdl_rect), sizeof(SDL_Rect));
    CHECK_INT(offsetof(struct sdl_rect, h), offsetof(SDL_Rect, h));
    CHECK(sizeof(union sdl_event) >= sizeof(SDL_Event));
    CHECK_INT(offsetof(union sdl_event, type), offsetof(SDL_Event, type));
    CHECK_INT(offsetof(union sdl_event, key.repeat), offsetof(SDL_Event, key.repeat));
    CHECK_INT(offsetof(union sdl_event, key.symbol), offsetof(SDL_Event, key.keysym.sym));
}

TEST_MAIN(TEST_CASE(numbers), TEST_CASE(layout))
#else
int main(void)
{
    puts("skipped: SDL's headers are not here (libsdl2-dev)");
    return 77;
}
#endif
