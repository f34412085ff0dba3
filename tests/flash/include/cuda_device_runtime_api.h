// FlashInfer's utils.cuh includes it; nothing of it is used.
#pragma once
