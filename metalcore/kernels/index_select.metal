// y[o, i, k] = x[o, index[i], k];  dx[o, r, k] = sum over i with index[i] = r of g[o, i, k]
#include "indexed.h"
