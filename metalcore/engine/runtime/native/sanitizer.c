/* Sanitize mode as one translation unit, for a library of its own: most programs never need it. With it goes track.c. */
#include "events.c"
#include "rounds.c"
#include "sanitize.c"
#include "touch.c"
