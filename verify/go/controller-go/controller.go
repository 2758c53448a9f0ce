// Package controller keeps a Deployment for each Shop.
package controller

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// Controller keeps a Deployment for each Shop.
type Controller struct {
	kube        kubernetes.Interface
	client      *Clientset
	factory     informers.SharedInformerFactory
	shops       cache.SharedIndexInformer
	deployments appslisters.DeploymentLister
	synced      []cache.InformerSynced
	queue       workqueue.TypedRateLimitingInterface[cache.ObjectName]
	recorder    record.EventRecorder
	broadcaster record.EventBroadcaster
}

// New makes a controller, which runs with Run.
func New(ctx context.Context, kube kubernetes.Interface, client *Clientset) (*Controller, error) {
	if err := clientscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(kube, 0)
	deployments := factory.Apps().V1().Deployments()
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	c := &Controller{
		kube:        kube,
		client:      client,
		factory:     factory,
		shops:       NewShopInformer(client, 0),
		deployments: deployments.Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
		recorder:    broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "shop-controller"}),
		broadcaster: broadcaster,
	}
	c.synced = []cache.InformerSynced{c.shops.HasSynced, deployments.Informer().HasSynced}
	if _, err := c.shops.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, object any) { c.enqueue(object) },
	}); err != nil {
		return nil, err
	}
	_, err := deployments.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueueOwner,
		UpdateFunc: func(_, object any) { c.enqueueOwner(object) },
		DeleteFunc: c.enqueueOwner,
	})
	return c, err
}

// Run works until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	defer c.broadcaster.Shutdown()
	c.factory.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { c.shops.RunWithContext(ctx) })
	defer running.Wait()
	defer c.factory.Shutdown()
	defer c.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return fmt.Errorf("the caches did not sync")
	}
	for range 2 {
		running.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	return nil
}

func (c *Controller) enqueue(object any) {
	if name, err := cache.ObjectToName(object); err == nil {
		c.queue.Add(name)
	}
}

func (c *Controller) enqueueOwner(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	deployment, ok := object.(*appsv1.Deployment)
	if !ok {
		return
	}
	if owner := metav1.GetControllerOf(deployment); owner != nil && owner.Kind == "Shop" {
		c.queue.Add(cache.NewObjectName(deployment.Namespace, owner.Name))
	}
}

func (c *Controller) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	if err := c.reconcile(ctx, name); err != nil {
		c.queue.AddRateLimited(name)
	} else {
		c.queue.Forget(name)
	}
	return true
}

func (c *Controller) reconcile(ctx context.Context, name cache.ObjectName) error {
	shop, err := ShopLister{c.shops.GetIndexer()}.Get(name.Namespace, name.Name)
	if errors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	deployment, err := c.deployments.Deployments(shop.Namespace).Get(shop.Spec.Deployment)
	if errors.IsNotFound(err) {
		deployment, err = c.kube.AppsV1().Deployments(shop.Namespace).Create(ctx, newDeployment(shop), metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(deployment, shop) {
		c.recorder.Eventf(shop, corev1.EventTypeWarning, "NotOwned", "Deployment %s belongs to someone else", deployment.Name)
		return fmt.Errorf("deployment %s belongs to someone else", deployment.Name)
	}
	if shop.Spec.Replicas != nil && *shop.Spec.Replicas != *deployment.Spec.Replicas {
		deployment = deployment.DeepCopy()
		deployment.Spec.Replicas = shop.Spec.Replicas
		deployment, err = c.kube.AppsV1().Deployments(shop.Namespace).Update(ctx, deployment, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
	}
	if shop.Status.AvailableReplicas != deployment.Status.AvailableReplicas {
		shop = shop.DeepCopy()
		shop.Status.AvailableReplicas = deployment.Status.AvailableReplicas
		if _, err := c.client.Shops(shop.Namespace).UpdateStatus(ctx, shop, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	c.recorder.Event(shop, corev1.EventTypeNormal, "Synced", "The Deployment is as the shop wants it")
	return nil
}

func newDeployment(shop *Shop) *appsv1.Deployment {
	labels := map[string]string{"app": "nginx", "shop": shop.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name:            shop.Spec.Deployment,
			Namespace:       shop.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(shop, groupVersion.WithKind("Shop"))},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: shop.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}
}
