#error "MetalPerformancePrimitives (Metal 4 tensor operations) is not supported yet"
