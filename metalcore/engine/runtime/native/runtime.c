/* The whole runtime as one translation unit: one compiler start instead of five. */
#include "access.c"
#include "interrupt.c"
#include "launch.c"
#include "memory.c"
#include "pool.c"
#include "python.c"
#include "report.c"
