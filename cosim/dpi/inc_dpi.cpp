// DPI-C functions of the transactors: they adapt types, return at once and keep nothing between
// calls. The first argument of each is the handle, the address of the test bench's inc::Instance.
//
//   inc_dpi_param        a setting of the run (inc_tb_pkg.sv)
//   inc_dpi_step_source  reports that the last beat given was accepted, and, if one is wanted, gives
//                        the next beat that is due; returns whether it gave one
//   inc_dpi_take_beat    takes a beat accepted on an output stream
//   inc_dpi_next_access  gives the next register access; returns whether there is one
//   inc_dpi_end_access   takes its answer
//   inc_dpi_retire       takes one retirement record
#include <svdpi.h>

#include "instance.h"

namespace {

inc::Instance* instance(long long handle) { return reinterpret_cast<inc::Instance*>(handle); }

}  // namespace

extern "C" {

long long inc_dpi_param(long long handle, int which) {
  const inc::Settings& s = instance(handle)->settings;
  switch (which) {
    case inc::kParamSeed: return static_cast<long long>(s.seed);
    case inc::kParamPacing: return s.pacing;
    case inc::kParamIdlePpm: return s.idle_ppm;
    case inc::kParamBackpressurePpm: return s.backpressure_ppm;
    case inc::kParamBypassPpm: return s.bypass_backpressure_ppm;
    case inc::kParamProbe: return s.probe;
    case inc::kParamCapture: return s.capture;
    default: return -1;
  }
}

svBit inc_dpi_step_source(long long handle, svBit accepted, svBit want, svBitVecVal* data,
                          svBitVecVal* keep, svBit* last, svBit* user, char* tid) {
  bool is_last = false;
  bool is_user = false;
  uint8_t port = 0;
  const bool got = instance(handle)->step_source(accepted != 0, want != 0, data, keep, &is_last,
                                                 &is_user, &port);
  *last = is_last;
  *user = is_user;
  *tid = static_cast<char>(port);
  return got;
}

void inc_dpi_take_beat(long long handle, int stream, const svBitVecVal* data,
                       const svBitVecVal* keep, svBit last, svBit user, char tport) {
  instance(handle)->take_beat(static_cast<unsigned>(stream), data, keep, last != 0, user != 0,
                              static_cast<uint8_t>(tport));
}

svBit inc_dpi_next_access(long long handle, svBit* is_write, unsigned* addr, unsigned* data) {
  bool write = false;
  uint32_t a = 0;
  uint32_t d = 0;
  const bool got = instance(handle)->next_access(&write, &a, &d);
  *is_write = write;
  *addr = a;
  *data = d;
  return got;
}

void inc_dpi_end_access(long long handle, unsigned data, char resp) {
  instance(handle)->end_access(data, static_cast<uint8_t>(resp));
}

void inc_dpi_retire(long long handle, int words, const svBitVecVal* data) {
  instance(handle)->retire(data, static_cast<size_t>(words));
}

}  // extern "C"
