// The whole library: find_package(banyan), link banyan::banyan, include this. docs/library.md says
// what is promised stable.
#pragma once

#include "banyan/answer.h"
#include "banyan/ask.h"
#include "banyan/constrain.h"
#include "banyan/encoder.h"
#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/extract.h"
#include "banyan/job.h"
#include "banyan/kv_store.h"
#include "banyan/model.h"
#include "banyan/rag.h"
#include "banyan/request.h"
#include "banyan/retrieval.h"
#include "banyan/text.h"
#include "banyan/types.h"
#include "banyan/version.h"
