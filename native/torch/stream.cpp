// What the table holds on macOS. Only this file looks into torch's classes: MPSStream::queue() is inline and reads a
// private member, so that what is built fits one minor version of torch.
#include <ATen/mps/MPSStream.h>
#include <dispatch/dispatch.h>
#include <objc/message.h>
#include <objc/runtime.h>

#include "metal.h"

// What @autoreleasepool is compiled to.
extern "C" void* objc_autoreleasePoolPush();
extern "C" void objc_autoreleasePoolPop(void* pool);

extern "C" void metalcore_set_host(const metalcore::Host* host);

namespace metalcore {
namespace {

at::mps::MPSStream* of(void* stream) { return static_cast<at::mps::MPSStream*>(stream); }

// An exception cannot pass through libdispatch: what torch throws here becomes null, which the caller reports.
template <typename Call>
Object caught(Call call) {
  try {
    return call();
  } catch (...) {
    return nullptr;
  }
}

const Host kHost = {
    reinterpret_cast<void (*)()>(objc_msgSend),
    [](const char* name) -> Selector { return sel_registerName(name); },
    [](const char* name) -> Object { return objc_lookUpClass(name); },
    objc_autoreleasePoolPush,
    objc_autoreleasePoolPop,
    [](void* queue, void* context, void (*work)(void*)) {
      dispatch_sync_f(static_cast<dispatch_queue_t>(queue), context, work);
    },
    // An empty destructor: the bytes are the extension's own and stay.
    [](const void* bytes, uint64_t size) -> Object { return dispatch_data_create(bytes, size, nullptr, nullptr); },
    []() -> void* { return at::mps::getCurrentMPSStream(); },
    [](void* stream) -> void* { return of(stream)->queue(); },
    [](void* stream) -> Object { return of(stream)->device(); },
    [](void* stream) -> Object { return caught([=] { return of(stream)->commandEncoder(); }); },
    [](void* stream) -> Object { return caught([=] { return of(stream)->commandBuffer(); }); },
    [](void* stream) { caught([=]() -> Object { of(stream)->endKernelCoalescing(); return nullptr; }); },
};

[[maybe_unused]] const bool kIsSet = (metalcore_set_host(&kHost), true);

}  // namespace
}  // namespace metalcore
