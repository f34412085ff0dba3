// FlashInfer's page.cuh includes it; nothing of it is used.
#pragma once
