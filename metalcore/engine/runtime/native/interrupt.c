/* Ctrl-C: while a launch runs, SIGINT sets its stop word, which kernels poll, and then goes to the handler before us.
 *
 * The handler stays installed after a launch, where it does nothing but pass on: one sigaction call a launch both finds
 * a handler that the program has set since and puts ours in front of it again. */
#include "runtime.h"

#define MC_SLOTS 64

static struct {
  uint32_t used;
  volatile uint32_t stop;
} slots[MC_SLOTS];

static struct mc_sigaction previous;
static volatile uint32_t never_stops;

static void on_interrupt(int number, void* info, void* context) {
  for (int i = 0; i < MC_SLOTS; i++)
    if (MC_LOAD_ACQ(&slots[i].used)) slots[i].stop = 1;
  struct mc_sigaction next = previous;
  if (next.handler == MC_SIG_DFL || next.handler == MC_SIG_IGN) return;
  if (next.flags & MC_SA_SIGINFO) next.action(number, info, context);
  else next.handler(number);
}

static void install(void) {
  struct mc_sigaction now;
  if (sigaction(MC_SIGINT, 0, &now) != 0) return;
  if (now.handler == MC_SIG_DFL || now.handler == MC_SIG_IGN) return; /* the program wants to die, or not to hear */
  if (now.action == on_interrupt) return;
  previous = now;
  struct mc_sigaction ours = now;
  ours.action = on_interrupt;
  ours.flags |= MC_SA_SIGINFO;
  sigaction(MC_SIGINT, &ours, 0);
}

/* A brief launch is never stopped, which saves it a system call: Python raises KeyboardInterrupt right after it. */
uint32_t mc_interrupt_enter(volatile uint32_t** stop, int is_brief) {
  for (uint32_t i = 0; i < MC_SLOTS && !is_brief; i++) {
    uint32_t unused = 0;
    if (MC_LOAD_ACQ(&slots[i].used)) continue;
    if (!__atomic_compare_exchange_n(&slots[i].used, &unused, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
    slots[i].stop = 0;
    *stop = &slots[i].stop;
    install();
    return i;
  }
  *stop = &never_stops; /* brief, or more launches at once than slots */
  return MC_SLOTS;
}

void mc_interrupt_leave(uint32_t slot) {
  if (slot < MC_SLOTS) MC_STORE_REL(&slots[slot].used, 0);
}

void mc_interrupt_after_fork(void) {
  for (int i = 0; i < MC_SLOTS; i++) slots[i].used = 0;
}
