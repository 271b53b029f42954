# Shortcuts; the build itself is Meson's (meson.build). PREFIX and DESTDIR are for `make install`.
PREFIX ?= /usr/local

all:
	@./tools/build

demo:
	@./tools/demo

test:
	@./tools/test

install: all
	@meson configure build -Dprefix=$(PREFIX)
	@DESTDIR=$(DESTDIR) meson install -C build
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true

clean:
	rm -rf build demo

.PHONY: all demo test install clean
