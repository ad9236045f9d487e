// y[o, i, k] = x[o, index[o, i, k], k];  dx[o, r, k] = sum over i with index[o, i, k] = r of g[o, i, k]
#include "indexed.h"
