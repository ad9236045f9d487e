/* A torch tensor's memory, by DLPack's exchange of tensors in C. Part of python.c. */
#include "runtime.h"

typedef struct mc_dltensor { /* DLTensor, whose layout no version of DLPack changes */
  char* data;
  int32_t device, device_number, dimensions;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides; /* in elements; no strides: one element behind the other */
  uint64_t offset;
} mc_dltensor;

typedef struct mc_exchange { /* DLPackExchangeAPI of version 1 */
  uint32_t major, minor;
  const void *older, *allocate, *take, *give;
  int (*view)(mc_object*, mc_dltensor*); /* borrows; -1 and Python's error where there is nothing to see */
} mc_exchange;

#define MC_DLPACK_CPU 1
#define MC_DLPACK_COMPLEX 5

static struct {
  mc_object *tensor_type, *parameter_type;
  int (*view)(mc_object*, mc_dltensor*);
} torch;

/* The types live as long as the process. */
MC_EXPORT void mc_set_torch(mc_object* tensor_type, mc_object* parameter_type, const mc_exchange* exchange) {
  if (exchange->major != 1 || !exchange->view) return;
  torch.tensor_type = tensor_type, torch.parameter_type = parameter_type, torch.view = exchange->view;
}

/* What a method without arguments answers, or -1. */
static int64_t number_of(mc_object* object, mc_object* method) {
  mc_object* found = python.call_method(method, &object, 1, 0);
  if (!found) return -1;
  int64_t number = python.as_integer(found);
  python.dec_ref(found);
  return number;
}

/* Bytes from a tensor's first element to the end of its storage, which can be resized under it; -1: an error. */
static int64_t room_of(mc_object* tensor, int64_t item) {
  mc_object* storage = python.call_method(python.names.untyped_storage, &tensor, 1, 0);
  if (!storage) return -1;
  int64_t room = number_of(storage, python.names.nbytes), offset = number_of(tensor, python.names.storage_offset);
  python.dec_ref(storage);
  return offset >= 0 ? room - offset * item : -1;
}

/* Elements from the first to the last one, and whether there are no others between them; 0: there are none. */
static int64_t extent_of(const mc_dltensor* tensor, int* is_compact) {
  int64_t count = 1, extent = 1;
  *is_compact = 1;
  for (int32_t i = tensor->dimensions; i-- > 0;) {
    int64_t stride = tensor->strides ? tensor->strides[i] : count;
    if (tensor->shape[i] != 1 && stride != count) *is_compact = 0;
    extent += (tensor->shape[i] - 1) * stride;
    count *= tensor->shape[i];
  }
  return count ? extent : 0;
}

/* Not 0 where the tensor has memory that fits the rule, or just memory where types are not compared: then address and
 * size are its own, or go to the end of its storage. */
static int bind_tensor(const mc_rule* rule, mc_object* object, int how, void** address, uint64_t* size) {
  if (!torch.view) return 0;
  mc_object* type = python.type_of(object);
  python.dec_ref(type);
  if (type != torch.tensor_type && type != torch.parameter_type) return 0;
  mc_dltensor tensor;
  if (torch.view(object, &tensor) != 0) {
    python.clear_error();
    return 0;
  }
  int is_declared = rule->size && rule->size == (tensor.code << 8 | tensor.bits), is_compact;
  if (tensor.device != MC_DLPACK_CPU || tensor.lanes != 1 || tensor.code == MC_DLPACK_COMPLEX) return 0;
  int64_t item = tensor.bits / 8, bytes = extent_of(&tensor, &is_compact) * item;
  if (!bytes || !tensor.data) return 0;
  if (how != MC_STORAGE && !(is_compact && (is_declared || how == MC_ELEMENTS))) return 0;
  *address = tensor.data + tensor.offset;
  if ((uintptr_t)*address & (rule->misaligned | (uint64_t)(how == MC_ELEMENTS ? item - 1 : 0))) return 0;
  int64_t room = number_of(object, python.names.is_neg) == 0 ? room_of(object, item) : -1;
  if (room >= bytes) {
    *size = (uint64_t)(how == MC_STORAGE ? room : bytes);
    return 1;
  }
  python.clear_error();
  return 0;
}
