// Stands in for Apple's header of this name: what metal-cpp asks of it.
#pragma once
typedef struct __IOSurface* IOSurfaceRef;
