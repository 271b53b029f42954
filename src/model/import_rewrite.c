#include "model/import.h"

#include "base/base.h"

void import_rewrite(struct onnx_graph *g)
{
    onnx_prune(g);
}
